#include <fmt/format.h>

#include <charconv>

#include "analyze/check/nonfinite.h"
#include "analyze/values/similar_keys.h"
#include "cli/arguments/command.h"
#include "cli/arguments/command_line.h"
#include "cli/messages/progress.h"
#include "cli/show/quant.h"
#include "cli/show/text.h"
#include "report/run/describe.h"
#include "report/tensor/quant_picture_report.h"
#include "report/text/text.h"
#include "ttap/group.h"

namespace ttap::cli {
namespace {

constexpr const char* kHelp = R"(
KEY is name[::callN][@role][/path], as `ttap ls` prints it. When several passes have
it, the first is shown and the others are named.

Examples:
  ttap show out/run model.layers.0.mlp
  ttap show out/run model.layers.0.mlp::call2@in/0 --pass 3
  ttap show out/graphs %add_1@in/0           what a node of a graph was given
  ttap show out/run lm_head --index 0,-1     the values at [0, -1, :]
  ttap show out/run lm_head --bins 30 --log --worst 20
  ttap show out/run lm_head --quant nvfp4    what four bits would make of it
  ttap show out/fp4 fc@param/weight --against out/bf16    a quantized tensor, and its error
  ttap show out/run lm_head --json | jq .statistics.max_abs)";

// Building the index of a pass takes time, so not every pass of a long run is asked whether it has the key too.
constexpr size_t kOthersToLookAt = 32;
constexpr size_t kSuggestions = 5;
constexpr size_t kEdge = 3;

struct ShowOptions {
  SelectionOptions selection;
  std::string key;
  std::string index;
  size_t bins = 16;
  size_t worst = 5;
  bool log_scale = false;
  ShowQuantOptions quant;
};

// The tensor that `text` means: the key itself, a name that only looks like one, or a key as it was printed.
std::optional<size_t> find_tensor(const Pass& pass, const std::string& text) {
  if (const auto key = parse_key(text); key.ok())
    if (const auto found = pass.find(*key)) return found;
  if (const auto found = pass.find(Key{.name = text})) return found;
  for (size_t i = 0; i < pass.tensor_count(); ++i) {
    const std::string key = to_string(pass.tensor(i).key());
    if (key == text || printable(key) == text) return i;
  }
  return std::nullopt;
}

Error not_found(const Selection& selection, const std::string& text, size_t passes, std::vector<std::string> similar) {
  Error error{.code = ErrorCode::kNotFound,
              .message = fmt::format("no tensor '{}' in {}", text, count_text(passes, "pass", "passes")),
              .path = selection.run->path.string(),
              .hint = "`ttap ls` lists the keys"};
  if (!similar.empty()) {
    error.hint = "did you mean ";
    for (size_t i = 0; i < similar.size(); ++i)
      error.hint += fmt::format("{}{}",
                                i == 0                    ? ""
                                : i + 1 == similar.size() ? " or "
                                                          : ", ",
                                shell_quoted(printable(similar[i])));
    error.hint += "?";
  }
  return error;
}

Result<TensorReport> find_report(const Selection& selection, const ShowOptions& options) {
  std::vector<std::string> similar;
  std::optional<Error> unreadable;
  Progress progress("looking for the key", selection.passes.size());
  for (size_t p = 0; p < selection.passes.size(); ++p) {
    progress.advance();
    auto pass = open_pass(selection.passes[p]);
    if (!pass.ok()) {
      if (!unreadable) unreadable = pass.error();
      continue;
    }
    const auto index = find_tensor(*pass, options.key);
    if (!index) {
      if (similar.empty()) similar = similar_keys(*pass, options.key, kSuggestions);
      continue;
    }
    const TensorRecord tensor = pass->tensor(*index);
    TensorReport report{selection.passes[p], std::move(*pass), *index, tensor};
    const size_t others = std::min(selection.passes.size() - p - 1, kOthersToLookAt);
    for (size_t other = p + 1; other <= p + others; ++other) {
      if (selection.passes[other].rank != report.selected.rank) break;
      if (const auto next = open_pass(selection.passes[other]); next.ok() && next->find(tensor.key()))
        report.also_in.push_back(next->info().number);
    }
    for (size_t rest = p + others + 1; rest < selection.passes.size(); ++rest)
      report.not_looked_at += selection.passes[rest].rank == report.selected.rank;
    return report;
  }
  if (unreadable) return *unreadable;
  return not_found(selection, options.key, selection.passes.size(), std::move(similar));
}

Result<std::vector<int64_t>> parse_index(std::string_view text) {
  std::vector<int64_t> index;
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at != end;) {
    const auto [next, error] = std::from_chars(at, end, index.emplace_back());
    if (error != std::errc{} || (next != end && (*next != ',' || next + 1 == end)))
      return Error{.code = ErrorCode::kInvalidArgument,
                   .message = fmt::format("--index: '{}' is not a list of numbers", text),
                   .hint = "write 3, or 0,-1"};
    at = next == end ? end : next + 1;
  }
  return index;
}

Status look_at_values(TensorReport& report, const ShowOptions& options) {
  TTAP_ASSIGN(report.at, parse_index(options.index));
  if (report.tensor.has_fingerprint) report.stats = report.tensor.fingerprint.stats;
  TTAP_TRY(add_quantized(report, options.quant, options.worst));
  auto values = read_values(report.pass, report.index);
  if (!values.ok()) {
    report.no_bytes = std::move(values).error();
    return {};
  }
  const TensorView& view = values->view;
  report.decoded = values->decoded;
  if (!report.stats) {
    report.stats = fingerprint(view).stats;
    report.stats_computed = true;
  }
  const std::vector<int64_t> strides = view.strides.empty()
                                           ? contiguous_strides(view.shape)
                                           : std::vector<int64_t>(view.strides.begin(), view.strides.end());
  const TensorView strided{view.data, view.dtype, view.shape, strides};
  TTAP_ASSIGN(const TensorView at, select(strided, report.at));
  report.sample_shape.assign(at.shape.begin(), at.shape.end());
  report.sample = sample(at, kEdge, kEdge);
  report.histogram = histogram(view, options.bins);
  report.extremes = worst_elements(view, options.worst);
  return add_what_if(report, options.quant, view, options.worst);
}

void write_json(const Run& run, const TensorReport& report, Output& out) {
  JsonWriter json(out);
  json.begin_object().member("command", "show");
  write_run_members(json, run);
  json.key("pass").begin_line();
  write_pass_members(json, report.selected, report.pass);
  json.end();
  json.key("tensor").begin_line();
  write_tensor_members(json, report.index, report.tensor);
  json.end();
  json.key("event");
  write_event(json, report.pass, report.tensor.event);
  json.key("statistics");
  report.stats ? write_stats(json, *report.stats) : void(json.null());
  json.key("no_bytes");
  report.no_bytes ? write_error(json, *report.no_bytes) : void(json.null());
  if (report.sample) {
    json.key("sample").begin_line().member("at", std::span<const int64_t>(report.at));
    json.member("fixed", std::span<const int64_t>(report.sample->fixed));
    json.member("rows", std::span<const int64_t>(report.sample->rows));
    json.member("columns", std::span<const int64_t>(report.sample->columns)).member("parts", report.sample->parts);
    json.key("values").begin_list();
    for (const Number& value : report.sample->values) json.value(value);
    json.end().end();
  }
  if (report.histogram) {
    json.key("histogram").begin_object();
    json.member("finite", report.histogram->finite).member("nonfinite", report.histogram->nonfinite);
    json.key("bins").begin_array();
    for (const auto& bin : report.histogram->bins)
      json.begin_line().member("low", bin.low).member("high", bin.high).member("count", bin.count).end();
    json.end().end();
  }
  if (report.extremes) {
    json.key("worst").begin_object().member("nonfinite_count", report.extremes->nonfinite_count);
    json.key("nonfinite").begin_array();
    for (const Located& value : report.extremes->nonfinite) write_located(json, value, report.tensor.shape);
    json.end().key("largest").begin_array();
    for (const Located& value : report.extremes->largest) write_located(json, value, report.tensor.shape);
    json.end().end();
  }
  json.member("decoded", report.decoded).member("what_if", report.what_if).key("quant");
  report.quant ? write_quant_picture(json, *report.quant) : void(json.null());
  json.key("also_in").begin_list();
  for (uint32_t pass : report.also_in) json.value(pass);
  json.end().member("not_looked_at", report.not_looked_at).end();
}

Result<ExitCode> show(const ShowOptions& options, Output& out) {
  TTAP_ASSIGN(const Selection selection, select_some_passes(options.selection));
  TTAP_ASSIGN(TensorReport report, find_report(selection, options));
  TTAP_TRY(look_at_values(report, options));
  options.selection.json ? write_json(*selection.run, report, out) : draw_report(report, options.log_scale, out);
  // Bytes that were never kept are no error; bytes that cannot be trusted are.
  if (report.no_bytes && report.no_bytes->code != ErrorCode::kNotRecorded) return *report.no_bytes;
  return kFine;
}

}  // namespace

void add_show(CommandLine& line, Command& command) {
  auto options = std::make_shared<ShowOptions>();
  Verb verb = line.add_verb("show", "Shows one tensor: statistics, values, histogram, worst elements");
  add_run_argument(verb, options->selection);
  verb.add_option("KEY", options->key, "The tensor, as `ttap ls` prints it").required().type_name("");
  add_pass_and_rank(verb, options->selection);
  verb.add_option("--index", options->index, "Values at this index of the first dimensions; negative: from the end")
      .type_name("I[,J...]");
  verb.add_option("--bins", options->bins, "Rows of the histogram (default 16)").in_range(1, 1000).type_name("N");
  verb.add_flag("--log", options->log_scale, "Bars of the histogram on a logarithmic scale");
  verb.add_option("--worst", options->worst, "So many of the worst elements (default 5)")
      .in_range(0, 1000000)
      .type_name("N");
  add_show_quant_options(verb, options->quant);
  verb.footer(kHelp);
  verb.callback([options, &command] {
    command = {"show", &options->selection, [options](Output& out) { return show(*options, out); }};
    command.takes_newest_run = true;
  });
}

}  // namespace ttap::cli
