#include "report/log/log.h"

#include <fmt/format.h>

#include "cli/arguments/command.h"
#include "cli/arguments/command_line.h"
#include "cli/messages/error_text.h"
#include "report/log/log_json.h"
#include "report/run/describe.h"
#include "report/text/output_file.h"

namespace ttap::cli {
namespace {

constexpr const char* kHelp = R"(
What ran, in its order: modules, ops and kernels, with arguments and results, and of
each value its hash and statistics (docs/commands.md says how to read a line).

Examples:
  ttap log out/run | less                     everything
  ttap log out/run --pass 0 --module encoder.layer.0
  ttap log out/run --filter 'aten::(mm|addmm)' --inputs
  ttap log out/run --around encoder.layer.0:aten::softmax.int -n 5 --stack
  ttap log out/graphs --around %mm_1 -n 5      a node of a graph of torch.compile
  ttap log out/run --pass 0 --perfetto trace.json        for ui.perfetto.dev
  ttap log out/run --pass 0 --model-explorer graph.json  for Model Explorer
  ttap log out/run --json | jq '.passes[].events[] | select(.returned | not)')";

struct Arguments {
  SelectionOptions selection;
  LogOptions log;
  std::string around;
  std::string stack;
  std::string perfetto;
  std::string model_explorer;
};

LogSource source_of(const SelectedPass& selected) { return {selected.rank->number, selected.rank->pid}; }

void draw_header(const SelectedPass& selected, const Pass& pass, Output& out) {
  const PassInfo& info = pass.info();
  out.write(Style::kBold, fmt::format("pass {}", info.number));
  out.print(" of {}: ", rank_text(*selected.rank));
  out.write(ending_style(info), ending_text(info));
  out.print(", {}\n", count_text(pass.event_count(), "event", "events"));
  for (const std::string& trouble : {drops_text(info.drops), torn_text(info)})
    if (!trouble.empty()) out.write(Style::kYellow, fmt::format("  {}\n", trouble));
  out.write("\n");
}

// Every selected pass in turn. With --around, those that have the event.
class Log {
 public:
  Log(const Arguments& arguments, const Selection& selection) : arguments_(arguments), selection_(selection) {}

  using Body = std::function<Status(const SelectedPass&, const Pass&, const LogOptions&)>;
  using Unreadable = std::function<void(const SelectedPass&, const Error&)>;

  // Calls `body` with each pass and its options. A pass that cannot be read does not hide the others.
  Result<ExitCode> each(const Body& body, const Unreadable& unreadable) {
    std::optional<Error> not_found;
    const Rank* rank = nullptr;
    ModulesByName modules;
    bool any = false;
    ExitCode code = kFine;
    for (const SelectedPass& selected : selection_.passes) {
      const auto pass = open_pass(selected);
      if (!pass.ok()) {
        unreadable(selected, pass.error());
        code = kError;
        continue;
      }
      if (std::exchange(rank, selected.rank) != selected.rank) modules = read_model_facts(rank->path).modules;
      LogOptions options = arguments_.log;
      options.modules = &modules;
      if (!arguments_.around.empty()) {
        const auto event = find_event(*pass, arguments_.around);
        if (!event.ok()) {
          if (!not_found) not_found = event.error();
          continue;
        }
        options.around = *event;
      }
      any = true;
      TTAP_TRY(body(selected, *pass, options));
    }
    if (!any && not_found) return *not_found;
    return code;
  }

  Result<ExitCode> text(Output& out) {
    bool first = true;
    std::vector<Error> errors;
    const auto code = each(
        [&](const SelectedPass& selected, const Pass& pass, const LogOptions& options) -> Status {
          if (out.closed()) return {};
          if (!first) out.write("\n");
          first = false;
          draw_header(selected, pass, out);
          return draw_log(pass, options, out);
        },
        [&](const SelectedPass&, const Error& error) { errors.push_back(error); });
    out.flush();
    for (const Error& error : errors) print_error("log", error);
    return code;
  }

  Result<ExitCode> json(Output& out) {
    JsonWriter json(out);
    bool begun = false;  // an event that is nowhere is an error without a document
    const auto begin_pass = [&] {
      if (!std::exchange(begun, true)) {
        json.begin_object().member("command", "log");
        write_run_members(json, *selection_.run);
        json.key("passes").begin_array();
      }
      json.begin_object();
    };
    TTAP_ASSIGN(const ExitCode code, each(
                                         [&](const auto& selected, const Pass& pass, const LogOptions& options) {
                                           begin_pass();
                                           write_pass_members(json, selected, pass);
                                           json.key("events");
                                           const Status written = write_events(json, pass, options, out);
                                           json.end();
                                           return written;
                                         },
                                         [&](const auto& selected, const Error& error) {
                                           begin_pass();
                                           write_unreadable(json, selected, error);
                                           json.end();
                                         }));
    json.end().end();
    return code;
  }

  // A file for a viewer, with what `writer` makes of each pass.
  template <class Writer>
  Result<ExitCode> file(const std::string& path, Writer& writer, Output& out) {
    uint64_t passes = 0;
    TTAP_ASSIGN(const ExitCode code, each(
                                         [&](const auto& selected, const Pass& pass, const LogOptions& options) {
                                           ++passes;
                                           return writer.add(pass, options, source_of(selected));
                                         },
                                         [](const auto&, const Error& error) { print_error("log", error); }));
    writer.finish();
    if (!arguments_.selection.json) out.print("{}: {}\n", path, count_text(passes, "pass", "passes"));
    return code;
  }

  Result<ExitCode> perfetto(Output& out) {
    ExitCode code = kFine;
    TTAP_TRY(write_file(arguments_.perfetto, [&](Output& to) -> Status {
      PerfettoWriter writer(to, earliest_start());
      TTAP_ASSIGN(code, file(arguments_.perfetto, writer, out));
      return {};
    }));
    return code;
  }

  Result<ExitCode> model_explorer(Output& out) {
    ExitCode code = kFine;
    TTAP_TRY(write_file(arguments_.model_explorer, [&](Output& to) -> Status {
      ModelExplorerWriter writer(to);
      TTAP_ASSIGN(code, file(arguments_.model_explorer, writer, out));
      return {};
    }));
    return code;
  }

 private:
  // The first pass of each rank was the first to begin.
  uint64_t earliest_start() const {
    uint64_t earliest = UINT64_MAX;
    const Rank* rank = nullptr;
    for (const SelectedPass& selected : selection_.passes) {
      if (std::exchange(rank, selected.rank) == selected.rank) continue;
      if (const auto pass = open_pass(selected); pass.ok()) earliest = std::min(earliest, pass->info().started_unix_ns);
    }
    return earliest;
  }

  const Arguments& arguments_;
  const Selection& selection_;
};

Result<ExitCode> run_log(Arguments& arguments, Output& out) {
  TTAP_ASSIGN(const Selection selection, select_some_passes(arguments.selection));
  arguments.log.filter = arguments.selection.filter;
  if (!arguments.stack.empty()) arguments.log.stack = arguments.stack == "all" ? StackFrames::kAll : StackFrames::kUser;
  Log log(arguments, selection);
  if (arguments.perfetto.empty() && arguments.model_explorer.empty())
    return arguments.selection.json ? log.json(out) : log.text(out);
  ExitCode code = kFine;
  if (!arguments.perfetto.empty()) {
    TTAP_ASSIGN(code, log.perfetto(out));
  }
  if (!arguments.model_explorer.empty()) {
    TTAP_ASSIGN(const ExitCode other, log.model_explorer(out));
    code = std::max(code, other);
  }
  return code;
}

}  // namespace

void add_log(CommandLine& line, Command& command) {
  auto options = std::make_shared<Arguments>();
  Verb verb = line.add_verb("log", "Prints what ran: every module, op and kernel in its order");
  add_run_argument(verb, options->selection);
  add_pass_and_rank(verb, options->selection);
  add_filter(verb, options->selection, "Only events in whose name this PCRE2 pattern is found");
  verb.add_option("--module", options->log.module, "Only this module and what is below it").type_name("NAME");
  verb.add_option("--around", options->around, "Only this event and what ran before and after it").type_name("KEY");
  verb.add_option("-n", options->log.neighbours, "With --around: so many before, and as many after (default 10)")
      .type_name("N");
  verb.add_flag("--stack", options->stack,
                "The Python frames of each op; --stack=all: those inside PyTorch and TensorTap, too")
      .check([](const std::string& given) {
        return given == "true" || given == "all" ? "" : "--stack is given alone, or as --stack=all";
      });
  verb.add_flag("--inputs", options->log.inputs, "The hashes of the arguments, too");
  verb.add_flag("--strides", options->log.strides, "The strides of tensors that are not in C order");
  verb.add_flag("--keys", options->log.keys, "The key of each event, for --around and other commands");
  verb.add_option("--perfetto", options->perfetto, "Write a trace for ui.perfetto.dev instead").type_name("FILE");
  verb.add_option("--model-explorer", options->model_explorer, "Write graphs for Model Explorer instead")
      .type_name("FILE");
  verb.footer(kHelp);
  verb.callback([options, &command] {
    command = {"log", &options->selection, [options](Output& out) { return run_log(*options, out); }};
    command.takes_newest_run = true;
  });
}

}  // namespace ttap::cli
