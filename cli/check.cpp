#include <fmt/format.h>

#include "cli/arguments/command.h"
#include "cli/arguments/command_line.h"
#include "cli/check/quant.h"
#include "cli/messages/error_text.h"
#include "cli/messages/progress.h"
#include "report/check/check_report.h"

namespace ttap::cli {
namespace {

constexpr const char* kHelp = R"(
Goes through the tensors in execution order, pass by pass and rank by rank. The first
one with a NaN or Inf is shown in detail, with what went into that call; the later ones
follow in a table. What could not be judged, was dropped or is damaged is named too.

Where ops were recorded, the first is the op that made it from finite arguments, shown
with their statistics, its module and its line. Masks of -Inf that the program makes on
purpose, uninitialised memory and Inf that went no further are only counted. What came
out of a collective is followed to the rank that gave it.

With --quant it is about another question: which tensors would suffer in which quantized
format, the worst first. With --against RUN: which suffer in the format that they have.

Examples:
  ttap check out/run
  ttap check out/run --pass 3
  ttap check out/run --filter '^(?!.*mask)'   leave out what may hold -Inf
  ttap check out/run --all                    list what is on purpose as well
  ttap check out/run --verify                 also read every byte and check its hash
  ttap check out/run --json | jq .first.key
  ttap check out/run --json | jq .first.origin.call.stack
  ttap check out/run --quant nvfp4,mxfp8,fp8
  ttap check out/run --quant int4_group32 --filter '@param' --all
  ttap check out/fp4 --against out/bf16       which tensors suffer in the format they have
  ttap check out/fp4 --quant mxfp8 --against out/bf16   and what another would do
  ttap check out/run --quant nvfp4,mxfp8 --html quant.html
  ttap check out/run --quant nvfp4 --json | jq '.found[0].words'

Exit codes: 0 no NaN, no Inf (with --quant or --against: no tensor suffers); 1 some (or with --verify,
damage), or it cannot be told: passes or tensors were lost to a quota, a full disk or
staging memory; 2 an error.)";

struct Arguments {
  SelectionOptions selection;
  bool verify = false;
  bool all = false;
  QuantOptions quant;
};

// An error outweighs a finding: the answer is not whole.
Result<ExitCode> check(const Arguments& arguments, Output& out) {
  const QuantOptions& quant = arguments.quant;
  if (const bool limited = quant.least_sqnr_db.has_value(); !quant.asked() && (limited || !quant.html.empty()))
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = fmt::format("{} requires --quant or --against", limited ? "--min-sqnr" : "--html"),
                 .hint = "--quant FORMAT says what a format would do, --against RUN what the one in use has done"};
  if (quant.asked()) return check_quant(arguments.selection, quant, arguments.all, out);
  Progress progress("checking", 0);
  TTAP_ASSIGN(const CheckReport report,
              check_run({.selection = arguments.selection,
                         .verify = arguments.verify,
                         .all = arguments.all,
                         .progress = [&](uint64_t done, uint64_t total) { progress.set(done, total); }}));
  progress.wipe();
  arguments.selection.json ? write_json(report, out) : draw_report(report, out);
  out.flush();
  for (const Error& error : report.unreadable) print_error("check", error);
  return !report.complete() ? kError : report.clean() && report.conclusive() ? kFine : kFinding;
}

}  // namespace

void add_check(CommandLine& line, Command& command) {
  auto options = std::make_shared<Arguments>();
  Verb verb = line.add_verb("check", "Finds the first NaN or Inf, and every later one");
  add_run_argument(verb, options->selection);
  add_pass_and_rank(verb, options->selection);
  add_filter(verb, options->selection, "Judge only tensors in whose key this PCRE2 pattern is found");
  verb.add_flag(
      "--all", options->all,
      "List every tensor that holds a NaN or Inf, also what is meant to, and those near overflow or underflow");
  Option verify = verb.add_flag("--verify", options->verify, "Also read every byte that was kept and check its hash");
  add_quant_options(verb, options->quant);
  verify.excludes({"--quant", "--against"});
  verb.footer(kHelp);
  verb.callback([options, &command] {
    command = {"check", &options->selection, [options](Output& out) { return check(*options, out); }};
    command.takes_newest_run = options->quant.asked();  // the report of the other says it
  });
}

}  // namespace ttap::cli
