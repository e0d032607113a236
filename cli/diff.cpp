#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "cli/arguments/command.h"
#include "cli/arguments/command_line.h"
#include "cli/messages/error_text.h"
#include "cli/messages/progress.h"
#include "cli/python/python_program.h"
#include "report/diff/diff_report.h"
#include "report/text/output_file.h"

namespace ttap::cli {
namespace {

constexpr const char* kHelp = R"(
A is the reference. Each is a run, a rank directory, or one pass: .ttap, .pt,
.safetensors, a folder of .npy; also files that TensorTap did not write.

Tensors are matched by --map, then by key, by values, by structure. A tensor agrees when
every |b - a| <= atol + rtol |a|; the defaults depend on the coarser dtype
(docs/measures.md). An operator whose inputs agree and whose outputs do not
introduced the error; the others inherited it. Record with --roles in,out so that
this can be told.

Examples:
  ttap diff out/good out/bad
  ttap diff out/good out/bad --html report.html   a page to look at and to send
  ttap diff out/eager out/engine --map names.yaml --pass 0:3
  ttap diff out/fp32 out/fp8 --tol 'mlp=cos>=0.999' --tol '.*=0.05,0.01'
  ttap diff out/good out/bad --noise out/good2    tolerance measured, not guessed
  ttap diff out/good out/bad --replay             which side is wrong (docs/blame.md)
  ttap diff out/tp1 out/tp2 --shards shards.yaml
  ttap diff out/modules out/graphs                eager modules, and the graphs of torch.compile
  ttap diff ref.safetensors mine.pt --json | jq .sentence

A --map file is YAML, a rule a line: B's names to A's, or what a key is made of.
  - '^h\.(\d+)': 'layers.$1'
  - slice: {a: '(.+)q_proj$', of: '$1qkv_proj', at: '[..., 0:64]'}
  - drop: {b: rotary}

Exit codes: 0 the same; 1 diverged, or cannot be told (--fail-on says otherwise);
2 an error.)";

struct Arguments {
  SelectionOptions selection;  // --json, --color
  std::string a, b;
  DiffOptions diff;
  DrawDiffOptions draw;
  std::string csv;
  std::string html;
  size_t details = 200;
  std::vector<std::string> fail_on;
  bool keys_only = false;
  bool by_token = false, by_pass = false;
  bool replay = false;
  std::string device = "cpu";  // of the replay, as is the next
  PythonOptions python;
};

Error not_handed_over(const char* what) {
  return {.code = ErrorCode::kIo, .message = fmt::format("the diff cannot be handed to Python: {}", what)};
}

// The answer as JSON in a file without a name, which the process that this one becomes can read: its path.
Result<std::string> hand_over(const DiffReport& report) {
  const int file = ::memfd_create("ttap-diff", 0);
  if (file < 0) return not_handed_over(std::strerror(errno));
  Output json(file, {});
  write_diff_json(report, json);
  TTAP_TRY(json.finish());
  return fmt::format("/proc/self/fd/{}", file);
}

// Becomes Python, which calls both sides of what was found again.
Result<ExitCode> become_replay(const Arguments& arguments, const DiffReport& report, ExitCode code) {
  TTAP_ASSIGN(const std::string file, hand_over(report));
  std::vector<std::string> words = {
      "diff", file, "--exit-code", fmt::to_string(static_cast<int>(code)), "--device", arguments.device};
  append_options(arguments.selection, words);
  return become_python(arguments.python, words);
}

bool is_op_with_bytes(const Side& side, uint32_t tensor) {
  if (tensor == kNoTensor) return false;
  const TensorRecord record = side.tensor(tensor);
  return record.has_bytes && record.event < side.event_count() && side.event(record.event).kind == "op";
}

// Whether a replay would tell something of the operator that is named.
bool can_replay(const DiffReport& report) {
  if (report.introduced.empty() || !report.first()) return false;
  const PassDiff& pass = report.passes[report.first()->pass];
  const Match& match = report.at(*report.first()).match;
  return is_op_with_bytes(*pass.a, match.a) || is_op_with_bytes(*pass.b, match.b);
}

Result<ExitCode> run_diff(Arguments& arguments, Output& out) {
  TTAP_ASSIGN(const FailOn fail_on, FailOn::parse(arguments.fail_on));
  arguments.diff.structure = !arguments.keys_only;
  if (arguments.by_token || arguments.by_pass) arguments.diff.by_token = arguments.by_token;
  Progress progress("comparing", 0);
  arguments.diff.progress = [&](uint64_t done, uint64_t total) { progress.set(done, total); };
  TTAP_ASSIGN(DiffReport report, diff(arguments.a, arguments.b, arguments.diff));
  progress.wipe();
  const bool replay = arguments.replay && report.first();
  if (!arguments.selection.json) {
    draw_diff(report, arguments.draw, out);
    if (!arguments.replay && can_replay(report)) out.write("which side is wrong: the same command with --replay\n");
  } else if (!replay) {
    write_diff_json(report, out);
  }
  out.flush();
  // The answer first: a file that cannot be written does not cost it.
  if (!arguments.csv.empty()) {
    TTAP_TRY(write_file(arguments.csv, [&](Output& file) {
      write_diff_csv(report, file);
      return Status{};
    }));
  }
  if (!arguments.html.empty()) {
    add_details(report, arguments.details, arguments.diff.threads, arguments.diff.progress);
    progress.wipe();
    const Status written = write_diff_page(report, arguments.html);
    if (!written.ok()) return as_unwritable(written.error(), arguments.html);
    if (!arguments.selection.json) out.print("page: {}\n", arguments.html);
  }
  const ExitCode code = is_same(report, fail_on) ? kFine : kFinding;
  if (!replay) return code;
  TTAP_TRY(out.finish());
  return become_replay(arguments, report, code);
}

}  // namespace

void add_diff(CommandLine& line, Command& command) {
  auto options = std::make_shared<Arguments>();
  Verb verb = line.add_verb("diff", "Finds where two recordings first differ, and which operator is to blame");
  verb.add_option("A", options->a, "The reference").required().type_name("");
  verb.add_option("B", options->b, "What is compared with it").required().type_name("");
  verb.add_option("--pass", options->diff.passes, "Only these passes; 3:0 compares A's 3 with B's 0")
      .type_name("N[:M]");
  verb.add_option("--rank", options->diff.ranks, "Only these ranks; 0:1 compares A's 0 with B's 1").type_name("N[:M]");
  verb.add_flag("--by-token", options->by_token,
                "Compare token by token, whatever pass computed each; the default where passes hold different tokens");
  verb.add_flag("--by-pass", options->by_pass, "Compare pass by pass, by their numbers");
  verb.add_option("--filter", options->diff.filter, "Only tensors in whose key this PCRE2 pattern is found")
      .type_name("REGEX");
  verb.add_option("--map", options->diff.map,
                  "YAML file of regex: replacement, from B's keys to A's, and of what a key is a slice, a sum or a "
                  "transpose of, or to be left out")
      .type_name("FILE");
  verb.add_flag("--keys-only", options->keys_only, "Do not guess by structure what key and map leave over");
  verb.add_flag("--strict", options->diff.strict,
                "No guesses: nothing is matched by values or structure, no match is undone, and only the same bits, "
                "rounding bounds and tolerances decide");
  verb.add_flag("--all-ops", options->diff.all_ops,
                "Compare the ops before the first forward, too: weights are made there");
  verb.add_option("--shards", options->diff.shards,
                  "YAML file of regex: `concat DIM`, `sum` or `replicated`, to put ranks together")
      .type_name("FILE");
  verb.add_option("--rtol", options->diff.tolerance.rtol, "Relative tolerance for every tensor");
  verb.add_option("--atol", options->diff.tolerance.atol, "Absolute tolerance for every tensor");
  verb.add_option("--tol", options->diff.tolerance.rules,
                  "REGEX=RTOL,ATOL or REGEX=PREDICATE (cos>=0.999); the first that matches a key counts")
      .type_name("RULE")
      .one_value_each();
  verb.add_option("--noise", options->diff.noise, "Another run of the reference: tolerances are measured from it")
      .type_name("RUN");
  verb.add_option("--noise-factor", options->diff.tolerance.noise_factor, "How many times the noise is tolerated")
      .show_default();
  verb.add_flag("--equal-nan", options->diff.tolerance.equal_nan, "NaN agrees with NaN");
  verb.add_option("--fail-on", options->fail_on,
                  "Exit with 1 only when a tensor is so: diverged, missing, introduced, ..., or max_abs>1e-3")
      .type_name("PREDICATE")
      .one_value_each();
  verb.add_flag("--all", options->draw.all, "List what agrees, too");
  verb.add_flag("--matches", options->draw.matches, "List which tensor was matched with which, and how");
  verb.add_option("--rows", options->draw.rows, "Rows of the table").show_default();
  verb.add_option("--csv", options->csv, "Also write one line per tensor to this file").type_name("FILE");
  verb.add_option("--html", options->html, "Also write a page that needs nothing else").type_name("FILE");
  verb.add_option("--details", options->details, "How many tensors get charts in the page").show_default();
  verb.add_option("--threads", options->diff.threads, "Threads to compare with; 0: one per core").show_default();
  verb.add_flag(
      "--replay", options->replay,
      "Which side is wrong: call both again in float64, where the bytes are there; needs Python with PyTorch");
  add_device(verb, options->device).needs("--replay");
  for (Option& option : add_python(verb, options->python)) option.needs("--replay");
  add_output_options(verb, options->selection);
  verb.footer(kHelp);
  verb.callback([options, &command] {
    command = {"diff", &options->selection, [options](Output& out) { return run_diff(*options, out); }};
  });
}

}  // namespace ttap::cli
