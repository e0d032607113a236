#include "cli/arguments/command.h"
#include "cli/arguments/command_line.h"
#include "cli/messages/error_text.h"
#include "cli/messages/progress.h"
#include "report/mismatch/mismatch_report.h"
#include "report/text/output_file.h"

namespace ttap::cli {
namespace {

constexpr const char* kHelp = R"(
ROLLOUT is the run of the engine that generated the texts, TRAINER that of the model that
is trained on them: for each token that was drawn, how likely it is in both. The
log-probabilities are those that tap.logprobs() recorded, else they are computed from the
logits. Requests are matched by their tokens (docs/serving.md).

The mean difference of probabilities is normal below 0.005 and faulty beyond 0.01. Why the
worst tokens differ is then looked for: another temperature, the first operator that
diverges, other dtypes.

Examples:
  ttap mismatch out/vllm out/trainer
  ttap mismatch out/vllm out/trainer --plot mismatch.svg
  ttap mismatch out/vllm out/trainer --json | jq .measures.k3
  ttap mismatch out/vllm out/trainer --no-cause         the numbers only

Exit codes: 0 normal; 1 noticeable or faulty; 2 an error.)";

struct Arguments {
  SelectionOptions selection;  // --json, --color
  std::string rollout, trainer;
  MismatchOptions mismatch;
  std::string plot;
  bool no_cause = false;
};

Result<ExitCode> run_mismatch(Arguments& arguments, Output& out) {
  if (!(arguments.mismatch.ratio > 1))
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = "--ratio is not more than 1",
                 .hint = "1.2 counts tokens whose probabilities differ by more than a fifth"};
  arguments.mismatch.cause = !arguments.no_cause;
  Progress progress("scoring", 0);
  arguments.mismatch.progress = [&](uint64_t done, uint64_t total) { progress.set(done, total); };
  TTAP_ASSIGN(const MismatchReport report, find_mismatch(arguments.rollout, arguments.trainer, arguments.mismatch));
  progress.wipe();
  arguments.selection.json ? write_mismatch_json(report, out) : draw_mismatch(report, out);
  out.flush();
  if (!arguments.plot.empty()) {
    const Status written = write_file(arguments.plot, [&](Output& file) {
      write_mismatch_plot(report, file);
      return Status{};
    });
    if (!written.ok()) return as_unwritable(written.error(), arguments.plot);
    if (!arguments.selection.json) out.print("plot: {}\n", arguments.plot);
  }
  return report.level() == MismatchLevel::kNormal ? kFine : kFinding;
}

}  // namespace

void add_mismatch(CommandLine& line, Command& command) {
  auto options = std::make_shared<Arguments>();
  Verb verb = line.add_verb("mismatch", "How far the token probabilities of a rollout and its trainer differ, and why");
  verb.add_option("ROLLOUT", options->rollout, "The run that generated the texts").required().type_name("");
  verb.add_option("TRAINER", options->trainer, "The run that is trained on them").required().type_name("");
  verb.add_option("--rank", options->mismatch.rank, "Of this rank; 0:1 takes the rollout's 0 and the trainer's 1")
      .type_name("N[:M]");
  verb.add_option("--rollout-logits", options->mismatch.rollout_logits,
                  "Key of the rollout's logits; the last result as wide as the vocabulary unless given")
      .type_name("KEY");
  verb.add_option("--trainer-logits", options->mismatch.trainer_logits, "Likewise of the trainer's").type_name("KEY");
  verb.add_option("--ratio", options->mismatch.ratio,
                  "Count tokens whose probabilities differ by more than this factor")
      .show_default();
  verb.add_option("--worst", options->mismatch.worst,
                  "How many of the worst tokens to list, and to look for the cause of")
      .show_default();
  verb.add_flag("--no-cause", options->no_cause, "Do not compare the models, only the probabilities");
  verb.add_option("--plot", options->plot, "Also write a picture as SVG").type_name("FILE");
  verb.add_option("--threads", options->mismatch.threads, "Threads to work with; 0: one per core").show_default();
  add_output_options(verb, options->selection);
  verb.footer(kHelp);
  verb.callback([options, &command] {
    command = {"mismatch", &options->selection, [options](Output& out) { return run_mismatch(*options, out); }};
  });
}

}  // namespace ttap::cli
