#include <fmt/format.h>

#include "cli/arguments/command.h"
#include "cli/arguments/command_line.h"
#include "cli/messages/error_text.h"
#include "cli/messages/progress.h"
#include "report/run/describe.h"
#include "report/text/text.h"
#include "store/segment/segment_writer.h"

namespace ttap::cli {
namespace {

constexpr const char* kHelp = R"(
A process that was killed leaves passes whose names end in .incomplete. They can be
read as they are; recovery makes finished files of them: it cuts the torn tail, adds
the index, and takes .incomplete off the name. How the pass ended stays 'incomplete'.
Of a directory with several runs, all are looked at.
A pass whose process is still writing is left alone.

Examples:
  ttap recover out/run
  ttap recover out/run/rank0_pid7/pass00003.ttap.incomplete)";

struct Arguments : SelectionOptions {
  bool force = false;
};
struct Outcome {
  std::vector<std::pair<std::string, Recovered>> recovered;
  std::vector<std::string> still_written;
  std::vector<FailedFile> failed;
};

void recover_all(const Selection& selection, bool force, Outcome& outcome) {
  Progress progress("recovering", selection.passes.size());
  for (const SelectedPass& selected : selection.passes) {
    progress.advance();
    const std::string path = selected.file->path.string();
    if (!path.ends_with(kIncompleteSuffix)) continue;
    if (const auto pass = Pass::open(path); pass.ok() && pass->info().being_written) {
      outcome.still_written.push_back(path);
    } else if (auto recovered = recover_pass(path, force); recovered.ok()) {
      outcome.recovered.emplace_back(path, std::move(recovered).value());
    } else {
      outcome.failed.push_back({path, std::move(recovered).error()});
    }
  }
}

// Every run of the directory: any of them may have been killed.
Result<Outcome> recover_runs(const Arguments& arguments) {
  std::error_code ignored;
  std::vector<RunFolder> runs;
  if (std::filesystem::is_directory(arguments.path, ignored)) {
    TTAP_ASSIGN(runs, runs_in(arguments.path));
  }
  if (runs.size() < 2) runs = {{.path = arguments.path}};
  Outcome outcome;
  for (const RunFolder& run : runs) {
    PassSelection asked = arguments;
    asked.path = run.path.string();
    TTAP_ASSIGN(const Selection selection, select_passes(asked));
    recover_all(selection, arguments.force, outcome);
  }
  return outcome;
}

void print_text(const Outcome& outcome, Output& out) {
  for (const auto& [from, recovered] : outcome.recovered) {
    out.write(Style::kGreen, "recovered");
    out.print(" {}: {}", printable(recovered.path.string()), count_text(recovered.tensors, "tensor", "tensors"));
    if (recovered.cut_bytes > 0) out.print(", {} of torn tail cut", count_text(recovered.cut_bytes, "byte", "bytes"));
    out.write("\n");
  }
  for (const std::string& path : outcome.still_written) {
    out.write(Style::kYellow, "skipped");
    out.print(" {}: its process is still writing it; recover it after that has ended\n", printable(path));
  }
  if (outcome.recovered.empty() && outcome.still_written.empty() && outcome.failed.empty())
    out.write("nothing to recover: no pass here is incomplete\n");
}

void print_json(const Outcome& outcome, const std::string& path, Output& out) {
  JsonWriter json(out);
  json.begin_object().member("command", "recover").member("path", path);
  json.key("recovered").begin_array();
  for (const auto& [from, recovered] : outcome.recovered) {
    json.begin_line().member("from", from).member("path", recovered.path.string());
    json.member("tensors", recovered.tensors).member("cut_bytes", recovered.cut_bytes).end();
  }
  json.end().key("still_written").begin_array();
  for (const std::string& skipped : outcome.still_written) json.value(skipped);
  json.end();
  write_failed(json, outcome.failed);
  json.end();
}

}  // namespace

void add_recover(CommandLine& line, Command& command) {
  auto options = std::make_shared<Arguments>();
  Verb verb = line.add_verb("recover", "Makes finished files of what a killed process left");
  add_run_argument(verb, *options);
  add_pass_and_rank(verb, *options);
  verb.add_flag("--force", options->force,
                "Also where it cannot be told whether a process still writes: on a file system without locks");
  verb.footer(kHelp);
  verb.callback([options, &command] {
    command = {"recover", options.get(), [options](Output& out) -> Result<ExitCode> {
                 TTAP_ASSIGN(const Outcome outcome, recover_runs(*options));
                 options->json ? print_json(outcome, options->path, out) : print_text(outcome, out);
                 out.flush();
                 return print_errors("recover", outcome.failed);
               }};
  });
}

}  // namespace ttap::cli
