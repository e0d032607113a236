#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/check_report.h"
#include "cli/command.h"
#include "cli/describe.h"
#include "cli/error_text.h"
#include "cli/progress.h"
#include "report/text.h"

namespace ttap::cli {
namespace {

constexpr const char* kHelp = R"(
Goes through the tensors in execution order, rank by rank and pass by pass. The first
one with a NaN or Inf is told in detail, with what went into that call; the later ones
follow in a table. What could not be judged, was dropped or is damaged is named too.

Examples:
  ttap check out/run
  ttap check out/run --pass 3
  ttap check out/run --filter '^(?!.*mask)'   leave out what may hold -Inf
  ttap check out/run --verify                 also read every byte and check its hash
  ttap check out/run --json | jq .first.key

Exit codes: 0 no NaN, no Inf; 1 some (or with --verify, damage); 2 an error.)";

struct CheckOptions {
  SelectionOptions selection;
  bool verify = false;
};

CheckedTensor describe(const SelectedPass& selected, const Pass& pass, size_t index) {
  const TensorRecord tensor = pass.tensor(index);
  CheckedTensor result;
  result.rank = selected.rank->number;
  result.pid = selected.rank->pid;
  result.pass = pass.info().number;
  result.index = index;
  result.key = to_string(tensor.key());
  result.dtype = tensor.true_dtype.value_or(tensor.dtype);
  result.shape.assign(tensor.shape.begin(), tensor.shape.end());
  return result;
}

FirstFinding trace(const SelectedPass& selected, const Pass& pass, const Nonfinite& found) {
  FirstFinding first;
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
    CheckedInput line{describe(selected, pass, input), {}, false};
    if (const auto stats = stats_of(pass, input); stats.ok()) line.stats = *stats;
    line.finite =
        !can_be_nonfinite(pass.tensor(input).dtype) || (line.stats && line.stats->finite() == line.stats->count);
    first.inputs.push_back(std::move(line));
  }
  if (situation.before) first.before = to_string(pass.tensor(*situation.before).key());
  return first;
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
  for (const Nonfinite& nonfinite : found.found) {
    if (!report.first) report.first = trace(selected, pass, nonfinite);
    CheckedTensor tensor = describe(selected, pass, nonfinite.tensor);
    tensor.counts = nonfinite;
    report.found.push_back(std::move(tensor));
  }
  for (const Unjudged& unjudged : found.unjudged)
    report.unjudged.push_back({describe(selected, pass, unjudged.tensor), unjudged.error});
  if (!verify) return;
  const VerifyReport verified = verify_bytes(pass, scan);
  report.verified_tensors += verified.tensors;
  report.verified_bytes += verified.bytes;
  report.without_hash += verified.without_hash;
  for (const Unjudged& damaged : verified.damaged)
    report.damaged.push_back({describe(selected, pass, damaged.tensor), damaged.error});
}

Result<ExitCode> check(const CheckOptions& options, Output& out) {
  TTAP_ASSIGN(const Selection selection, select_some_passes(options.selection));
  CheckReport report;
  report.path = selection.run->path.string();
  report.verified = options.verify;
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

void add_check(CLI::App& app, Command& command) {
  auto options = std::make_shared<CheckOptions>();
  CLI::App* verb = app.add_subcommand("check", "Finds the first NaN or Inf, and every later one");
  add_run_argument(*verb, options->selection);
  add_pass_and_rank(*verb, options->selection);
  add_filter(*verb, options->selection, "Judge only tensors in whose key this PCRE2 pattern is found");
  verb->add_flag("--verify", options->verify, "Also read every byte that was kept and check its hash");
  verb->footer(kHelp);
  verb->callback([options, &command] {
    command = {"check", &options->selection, [options](Output& out) { return check(*options, out); }};
  });
}

}  // namespace ttap::cli
