#include <fmt/format.h>

#include "cli/arguments/command.h"
#include "cli/arguments/command_line.h"
#include "cli/check/quant.h"
#include "cli/check/report.h"
#include "cli/messages/describe.h"
#include "cli/messages/error_text.h"
#include "cli/messages/progress.h"
#include "report/text/text.h"

namespace ttap::cli {
namespace {

constexpr const char* kHelp = R"(
Goes through the tensors in execution order, rank by rank and pass by pass. The first
one with a NaN or Inf is told in detail, with what went into that call; the later ones
follow in a table. What could not be judged, was dropped or is damaged is named too.

Where ops were recorded, the first is the op that made it from finite arguments, told
with their statistics, its module and its line. Masks of -Inf that the program makes on
purpose, uninitialised memory and Inf that went no further are only counted.

With --quant it is about another question: which tensors would suffer in which quantized
format, the worst first.

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
  ttap check out/fp4 --quant mxfp8 --against out/bf16   what was done to what is quantized
  ttap check out/run --quant nvfp4,mxfp8 --html quant.html
  ttap check out/run --quant nvfp4 --json | jq '.found[0].words'

Exit codes: 0 no NaN, no Inf (with --quant: no tensor suffers); 1 some (or with --verify,
damage); 2 an error.)";

struct CheckOptions {
  SelectionOptions selection;
  bool verify = false;
  bool all = false;
  QuantOptions quant;
};

FirstFinding describe_first(const SelectedPass& selected, const Pass& pass, const Nonfinite& found) {
  FirstFinding first;
  first.tensor = checked_tensor(selected, pass, found);
  const TensorRecord tensor = pass.tensor(found.tensor);
  const Situation situation = situation_of(pass, found.tensor);
  first.tensors_in_pass = pass.tensor_count();
  first.format = pass.info().format;
  first.role = tensor.role;
  first.has_bytes = tensor.has_bytes;
  first.place = situation.first;
  if (tensor.event < pass.event_count()) {
    const EventRecord event = pass.event(tensor.event);
    first.event = FirstFinding::Event{std::string(event.kind), std::string(event.name), event.call,
                                      parents_text(pass, tensor.event), std::string(event.stack)};
  }
  for (size_t input : situation.inputs) {
    CheckedInput line{checked_tensor(selected, pass, input), {}, false};
    if (const auto stats = stats_of(pass, input); stats.ok()) line.stats = *stats;
    line.finite =
        !can_be_nonfinite(pass.tensor(input).dtype) || (line.stats && line.stats->finite() == line.stats->count);
    first.inputs.push_back(std::move(line));
  }
  if (situation.before) first.before = to_string(pass.tensor(*situation.before).key());
  return first;
}

// What each tensor that was found descends from.
CheckedTensor::Because because_of(const Origins& origins, size_t tensor) {
  const Descent from = origins.descent(tensor);
  const auto is_fault = [&](std::optional<size_t> origin) { return origin && origins.all()[*origin].is_fault(); };
  const size_t number = is_fault(from.nan) || !from.inf ? *from.nan : *from.inf;
  return {origins.all()[number].kind, !origins.arose_in(tensor), is_fault(from.nan) || is_fault(from.inf)};
}

FirstFinding tell_first(const SelectedPass& selected, const Pass& pass, const Origins& origins, size_t number) {
  OriginStory story = tell_story(selected, pass, origins, number);
  FirstFinding first = describe_first(selected, pass, story.first.tensor.counts);
  first.story = std::move(story);
  return first;
}

// The first fault is told in detail, wherever it is; while there is none, the first that was found.
void take_found(const SelectedPass& selected, const Pass& pass, const std::vector<Nonfinite>& found,
                CheckReport& report) {
  const bool traced = has_uses(pass);
  const Origins origins = traced ? find_origins(pass) : Origins{};
  const std::optional<size_t> number = traced ? origins.first_of(found) : std::nullopt;
  const bool fault = !number || origins.all()[*number].is_fault();
  if (!report.first || (fault && !report.first->is_fault()))
    report.first =
        number ? tell_first(selected, pass, origins, *number) : describe_first(selected, pass, found.front());
  for (const Nonfinite& nonfinite : found) {
    CheckedTensor tensor = checked_tensor(selected, pass, nonfinite);
    if (traced) tensor.because = because_of(origins, nonfinite.tensor);
    report.found.push_back(std::move(tensor));
  }
}

void check_pass(const SelectedPass& selected, const Pass& pass, const Selection& selection, bool verify,
                CheckReport& report) {
  ScanOptions scan;
  if (selection.filter) scan.wanted = [&](const TensorRecord& tensor) { return selection.wants(tensor); };
  Progress progress(fmt::format("checking pass {}", pass.info().number), pass.tensor_count() * (verify ? 2 : 1));
  scan.progress = [&](const TensorRecord&) { progress.advance(); };

  const NonfiniteReport found = find_nonfinite(pass, scan);
  report.judged += found.judged;
  report.unwanted += found.unwanted;
  if (!found.found.empty()) take_found(selected, pass, found.found, report);
  for (const Suspect& suspect : found.suspects)
    report.suspects.push_back({checked_tensor(selected, pass, suspect.tensor), suspect.suspicion, suspect.stats});
  for (const Unjudged& unjudged : found.unjudged)
    report.unjudged.push_back({checked_tensor(selected, pass, unjudged.tensor), unjudged.error});
  if (!verify) return;
  const VerifyReport verified = verify_bytes(pass, scan);
  report.verified_tensors += verified.tensors;
  report.verified_bytes += verified.bytes;
  report.without_hash += verified.without_hash;
  for (const Unjudged& damaged : verified.damaged)
    report.damaged.push_back({checked_tensor(selected, pass, damaged.tensor), damaged.error});
}

Result<ExitCode> check(const CheckOptions& options, Output& out) {
  if (options.quant.asked()) return check_quant(options.selection, options.quant, options.all, out);
  TTAP_ASSIGN(const Selection selection, select_some_passes(options.selection));
  CheckReport report;
  report.path = selection.run->path.string();
  report.verified = options.verify;
  report.all = options.all;
  report.filter = options.selection.filter;
  for (const SelectedPass& selected : selection.passes) {
    const auto pass = open_pass(selected);
    if (!pass.ok()) {
      if (selection.passes.size() == 1) return pass.error();
      report.unreadable.push_back(pass.error());
      continue;
    }
    check_pass(selected, *pass, selection, options.verify, report);
    report.passes.push_back({selected.rank->number, selected.rank->pid, pass->info()});
  }
  options.selection.json ? write_json(report, out) : draw_report(report, out);
  out.flush();
  for (const Error& error : report.unreadable) print_error("check", error);
  return report.exit_code();
}

}  // namespace

void add_check(CommandLine& line, Command& command) {
  auto options = std::make_shared<CheckOptions>();
  Verb verb = line.add_verb("check", "Finds the first NaN or Inf, and every later one");
  add_run_argument(verb, options->selection);
  add_pass_and_rank(verb, options->selection);
  add_filter(verb, options->selection, "Judge only tensors in whose key this PCRE2 pattern is found");
  verb.add_flag(
      "--all", options->all,
      "List every tensor that holds a NaN or Inf, also what is meant to, and those near overflow or underflow");
  Option verify = verb.add_flag("--verify", options->verify, "Also read every byte that was kept and check its hash");
  add_quant_options(verb, options->quant);
  verify.excludes({"--quant"});
  verb.footer(kHelp);
  verb.callback([options, &command] {
    command = {"check", &options->selection, [options](Output& out) { return check(*options, out); }};
  });
}

}  // namespace ttap::cli
