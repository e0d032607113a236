#include <fmt/format.h>

#include "analyze/check/nonfinite.h"
#include "cli/arguments/command.h"
#include "cli/arguments/command_line.h"
#include "cli/coverage/list.h"
#include "cli/messages/error_text.h"
#include "cli/messages/progress.h"
#include "core/number_set.h"
#include "report/run/describe.h"
#include "report/tensor/quant_picture_report.h"
#include "report/text/table.h"
#include "report/text/text.h"

namespace ttap::cli {
namespace {

constexpr const char* kHelp = R"(
One pass: its tensors in execution order. Several passes: one line each; choose
with --pass or --filter to see tensors.

Examples:
  ttap ls out/run                        what is there
  ttap ls out/run --pass 0               the tensors of pass 0
  ttap ls out/run --filter 'mlp|norm'    tensors whose key matches, in every pass
  ttap ls out/run/rank0_pid7/pass00003.ttap --limit 20
  ttap ls model.safetensors --stats      a file of another format, with statistics
  ttap ls out/run --coverage             what was not recorded, and why
  ttap ls out/run --runs                 every run of a directory that holds several
  ttap ls out/run --json | jq '.passes[].tensors[].key')";

struct LsOptions {
  SelectionOptions selection;
  bool passes_only = false;
  bool coverage = false;
  bool runs = false;
  bool stats = false;
  uint64_t limit = 0;  // 0: everything
};

// What ls knows about a tensor's values: as recorded, or with --stats computed.
std::optional<Stats> known_stats(const Pass& pass, size_t index, const TensorRecord& tensor, bool compute) {
  if (tensor.has_fingerprint) return tensor.fingerprint.stats;
  if (!compute) return std::nullopt;
  const auto stats = stats_of(pass, index);
  return stats.ok() ? std::optional(*stats) : std::nullopt;
}

std::string level_text(const Pass& pass, size_t index, const TensorRecord& tensor) {
  const std::string level(to_string(tensor.level));
  if (tensor.level != Level::kFull || tensor.has_bytes) return level;
  if (const auto other = pass.missing_from(index)) return fmt::format("{}, bytes in pass {}, not found", level, *other);
  return level + ", bytes dropped";
}

// The runs of a directory, one line each.
Result<ExitCode> list_runs(const LsOptions& options, Output& out) {
  TTAP_ASSIGN(std::vector<RunFolder> folders, runs_in(options.selection.path));
  if (folders.empty()) folders = {{.path = options.selection.path}};  // one rank, or one pass
  std::vector<Run> runs;
  for (const RunFolder& folder : folders) {
    TTAP_ASSIGN(Run run, Run::open(folder.path));
    runs.push_back(std::move(run));
  }
  const auto passes_of = [](const Run& run) {
    uint64_t passes = 0;
    for (const Rank& rank : run.ranks) passes += rank.passes.size();
    return passes;
  };
  if (options.selection.json) {
    JsonWriter json(out);
    json.begin_object().member("command", "ls").member("path", options.selection.path).key("runs").begin_array();
    for (const Run& run : runs) {
      json.begin_line().member("run", run.number).member("path", run.path.string());
      json.member("ranks", run.ranks.size()).member("passes", passes_of(run)).end();
    }
    json.end().end();
    return kFine;
  }
  using enum Table::Align;
  Table table({{"run", kRight}, {"ranks", kRight}, {"passes", kRight}, {"path", kLeft, 0, true}});
  for (const Run& run : runs) {
    table.add(fmt::format("{}", run.number));
    table.add(fmt::format("{}", run.ranks.size()));
    table.add(fmt::format("{}", passes_of(run)));
    table.add(printable(run.path.string()));
  }
  table.draw(out);
  return kFine;
}

class Ls {
 public:
  Ls(const LsOptions& options, Selection selection, Output& out)
      : options_(options), selection_(std::move(selection)), out_(out) {}

  Result<ExitCode> text() {
    if (selection_.passes.empty()) {
      for (const Rank& rank : selection_.run->ranks) out_.print("{}: no pass recorded\n", rank_text(rank));
      return kFine;
    }
    const bool chosen = !options_.selection.passes.empty() || selection_.filter;
    if (options_.passes_only || (selection_.passes.size() > 1 && !chosen)) return pass_lines();
    return tensor_tables();
  }

  Result<ExitCode> json() {
    JsonWriter json(out_);
    json.begin_object().member("command", "ls");
    write_run_members(json, *selection_.run);
    json.key("passes").begin_array();
    ExitCode code = kFine;
    for (const SelectedPass& selected : selection_.passes) {
      if (out_.closed()) return code;
      json.begin_object();
      if (const auto pass = open_pass(selected); pass.ok()) {
        write_pass_members(json, selected, *pass);
        if (!options_.passes_only) json_tensors(json, *pass);
      } else {
        write_unreadable(json, selected, pass.error());
        code = kError;
      }
      json.end();
    }
    json.end().end();
    return code;
  }

 private:
  Result<ExitCode> pass_lines() {
    using enum Table::Align;
    Table table({{"rank", kRight},
                 {"pid", kRight, 4},
                 {"pass", kRight},
                 {"ending"},
                 {"tensors", kRight},
                 {"events", kRight, 3},
                 {"file", kRight, 1},
                 {"started", kLeft, 5},
                 {"NaN/Inf", kRight},
                 {"not kept", kLeft, 0, true},
                 {"trouble", kLeft, 0, true}});
    std::vector<Error> errors;
    Progress progress("reading passes", selection_.passes.size());
    for (const SelectedPass& selected : selection_.passes) {
      progress.advance();
      table.add(fmt::format("{}", selected.rank->number));
      table.add(fmt::format("{}", selected.rank->pid), Style::kDim);
      const auto pass = open_pass(selected);
      if (!pass.ok()) {
        errors.push_back(pass.error());
        table.add(fmt::format("{}", selected.file->number));
        table.add("unreadable", Style::kRed);
        for (int i = 0; i < 6; ++i) table.add("");
        table.add(printable(pass.error().message), Style::kRed);
        continue;
      }
      add_pass_cells(table, *pass);
    }
    progress.wipe();
    out_.print("{}: {}, {}\n\n", printable(selection_.run->path.string()),
               count_text(selection_.run->ranks.size(), "rank", "ranks"),
               count_text(selection_.passes.size(), "pass", "passes"));
    table.draw(out_);
    if (!options_.passes_only) {
      const SelectedPass& first = selection_.passes.front();
      out_.write(Style::kDim, fmt::format("\nThe tensors of one: ttap ls {} --pass {}\n",
                                          shell_quoted(selection_.run->path.string()), first.file->number));
    }
    out_.flush();
    for (const Error& error : errors) print_error("ls", error);
    return errors.empty() ? kFine : kError;
  }

  void add_pass_cells(Table& table, const Pass& pass) {
    const PassInfo& info = pass.info();
    uint64_t nonfinite = 0;
    for (size_t i = 0; i < pass.tensor_count(); ++i) {
      const TensorRecord tensor = pass.tensor(i);
      const Stats& s = tensor.fingerprint.stats;
      nonfinite += tensor.has_fingerprint && (s.nan > 0 || s.pos_inf > 0 || s.neg_inf > 0);
    }
    table.add(fmt::format("{}", info.number), Style::kBold);
    table.add(ending_text(info), ending_style(info));
    table.add(fmt::format("{}", pass.tensor_count()));
    table.add(pass.event_count() > 0 ? fmt::format("{}", pass.event_count()) : "");
    table.add(bytes_text(info.file_bytes));
    table.add(info.started_unix_ns > 0 ? time_text(info.started_unix_ns) : "", Style::kDim);
    table.add(nonfinite > 0 ? fmt::format("{}", nonfinite) : "", Style::kRed);
    table.add(drops_text(info.drops), Style::kYellow);
    table.add(torn_text(info), Style::kYellow);
  }

  Result<ExitCode> tensor_tables() {
    std::vector<Error> errors;
    bool any = false;
    for (const SelectedPass& selected : selection_.passes) {
      if (out_.closed()) return kFine;
      const auto pass = open_pass(selected);
      if (!pass.ok()) {
        if (selection_.passes.size() == 1) return pass.error();
        errors.push_back(pass.error());
        continue;
      }
      if (any) out_.write("\n");
      any = true;
      tensor_table(selected, *pass);
    }
    out_.flush();
    for (const Error& error : errors) print_error("ls", error);
    return errors.empty() ? kFine : kError;
  }

  void header(const SelectedPass& selected, const Pass& pass) {
    const PassInfo& info = pass.info();
    out_.write(Style::kBold, fmt::format("pass {}", info.number));
    out_.print(" of {}: ", rank_text(*selected.rank));
    out_.write(ending_style(info), ending_text(info));
    out_.print(", {}", count_text(pass.tensor_count(), "tensor", "tensors"));
    if (pass.event_count() > 0) out_.print(", {}", count_text(pass.event_count(), "event", "events"));
    out_.print(", {}", bytes_text(info.file_bytes));
    if (info.format != Format::kSegment) out_.print(", .{}", to_string(info.format));
    out_.write("\n");
    const auto warn = [&](const std::string& text) {
      if (!text.empty()) out_.write(Style::kYellow, fmt::format("  {}\n", text));
    };
    warn(drops_text(info.drops));
    warn(torn_text(info));
    for (const std::string& note : info.notes) out_.print("  {}\n", printable(note));
  }

  void tensor_table(const SelectedPass& selected, const Pass& pass) {
    header(selected, pass);
    using enum Table::Align;
    Table table({{"key", kLeft, 0, true},
                 {"dtype"},
                 {"quantized"},
                 {"shape"},
                 {"level", kLeft, 4},
                 {"size", kRight, 5},
                 {"min", kRight, 2},
                 {"max", kRight, 1},
                 {"mean", kRight, 3},
                 {"NaN/Inf"}});
    uint64_t matching = 0;
    bool without_stats = false;
    Progress progress("reading tensors", pass.tensor_count());
    for (size_t i = 0; i < pass.tensor_count(); ++i) {
      progress.advance();
      const TensorRecord tensor = pass.tensor(i);
      if (!selection_.wants(tensor)) continue;
      if (options_.limit > 0 && matching++ >= options_.limit) continue;
      const auto stats = known_stats(pass, i, tensor, options_.stats);
      const std::string nonfinite = stats ? nonfinite_text(*stats) : "";
      without_stats = without_stats || (!stats && tensor.has_bytes);
      table.add(key_text(tensor), nonfinite.empty() ? Style::kPlain : Style::kRed);
      table.add(dtype_text(tensor));
      table.add(quant_name(tensor), Style::kCyan);
      table.add(shape_text(tensor.shape));
      table.add(level_text(pass, i, tensor),
                tensor.level == Level::kFull && !tensor.has_bytes ? Style::kYellow : Style::kDim);
      table.add(bytes_text(tensor.byte_count));
      table.add(stats ? statistic_text(stats->min, tensor.dtype, 4) : "");
      table.add(stats ? statistic_text(stats->max, tensor.dtype, 4) : "");
      table.add(stats ? statistic_text(stats->mean, DType::kF64, 4) : "");
      table.add(nonfinite, Style::kRed);
    }
    progress.wipe();
    if (table.rows() > 0) {
      out_.write("\n");
      table.draw(out_);
    } else if (selection_.filter && pass.tensor_count() > 0) {
      out_.print("\nno key matches '{}'\n", printable(options_.selection.filter));
    }
    if (options_.limit > 0 && matching > options_.limit) out_.print("... and {} more\n", matching - options_.limit);
    if (without_stats)
      out_.write(Style::kDim, "\nThis format keeps no statistics: --stats reads the tensors and computes them.\n");
  }

  void json_tensors(JsonWriter& json, const Pass& pass) {
    json.key("tensors").begin_array();
    uint64_t listed = 0;
    for (size_t i = 0; i < pass.tensor_count() && !out_.closed(); ++i) {
      const TensorRecord tensor = pass.tensor(i);
      if (!selection_.wants(tensor)) continue;
      if (options_.limit > 0 && listed++ >= options_.limit) break;
      json.begin_line();
      write_tensor_members(json, i, tensor);
      json.key("statistics");
      const auto stats = known_stats(pass, i, tensor, options_.stats);
      stats ? write_stats(json, *stats) : void(json.null());
      json.end();
    }
    json.end();
  }

  const LsOptions& options_;
  Selection selection_;
  Output& out_;
};

}  // namespace

void add_ls(CommandLine& line, Command& command) {
  auto options = std::make_shared<LsOptions>();
  Verb verb = line.add_verb("ls", "Lists passes and tensors");
  add_run_argument(verb, options->selection);
  add_pass_and_rank(verb, options->selection);
  add_filter(verb, options->selection, "Only tensors in whose key this PCRE2 pattern is found");
  verb.add_flag("--passes", options->passes_only, "Only the passes, one line each");
  verb.add_flag("--stats", options->stats, "Compute statistics where none are recorded (.pt, .safetensors, .npy)");
  verb.add_option("--limit", options->limit, "At most this many tensors of a pass; 0 for all (default)").type_name("N");
  verb.add_flag("--coverage", options->coverage, "What each rank recorded and what it did not, instead of tensors")
      .excludes({"--pass", "--filter", "--passes", "--stats", "--limit"});
  verb.add_flag("--runs", options->runs, "The runs of a directory, the oldest first, instead of tensors")
      .excludes({"--pass", "--rank", "--filter", "--passes", "--stats", "--limit", "--coverage"});
  verb.footer(kHelp);
  verb.callback([options, &command] {
    command = {"ls", &options->selection, [options](Output& out) -> Result<ExitCode> {
                 if (options->runs) return list_runs(*options, out);
                 if (options->coverage) {
                   TTAP_ASSIGN(const Run ranks, select_ranks(options->selection));
                   return options->selection.json ? write_coverage_json(ranks, out) : list_coverage(ranks, out);
                 }
                 TTAP_ASSIGN(Selection selection, select_passes(options->selection));
                 Ls ls(*options, std::move(selection), out);
                 return options->selection.json ? ls.json() : ls.text();
               }};
    command.takes_newest_run = !options->runs;
  });
}

}  // namespace ttap::cli
