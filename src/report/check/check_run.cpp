#include <algorithm>
#include <set>

#include "report/check/check_report.h"
#include "report/run/describe.h"

namespace ttap {
namespace {

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

void check_pass(const SelectedPass& selected, const Pass& pass, const Selection& selection, const CheckOptions& options,
                CheckReport& report) {
  ScanOptions scan;
  if (selection.filter || options.wanted)
    scan.wanted = [&](const TensorRecord& tensor) {
      return selection.wants(tensor) && (!options.wanted || options.wanted(to_string(tensor.key())));
    };
  uint64_t done = 0;
  if (options.progress)
    scan.progress = [&, total = pass.tensor_count() * (options.verify ? 2 : 1)](const TensorRecord&) {
      options.progress(++done, total);
    };

  const NonfiniteReport found = find_nonfinite(pass, scan);
  report.judged += found.judged;
  report.unwanted += found.unwanted;
  if (!found.found.empty()) take_found(selected, pass, found.found, report);
  for (const Suspect& suspect : found.suspects)
    report.suspects.push_back({checked_tensor(selected, pass, suspect.tensor), suspect.suspicion, suspect.stats});
  for (const Unjudged& unjudged : found.unjudged)
    report.unjudged.push_back({checked_tensor(selected, pass, unjudged.tensor), unjudged.error});
  if (!options.verify) return;
  const VerifyReport verified = verify_bytes(pass, scan);
  report.verified_tensors += verified.tensors;
  report.verified_bytes += verified.bytes;
  report.without_hash += verified.without_hash;
  for (const Unjudged& damaged : verified.damaged)
    report.damaged.push_back({checked_tensor(selected, pass, damaged.tensor), damaged.error});
}

}  // namespace

bool CheckReport::complete() const {
  const auto failed = [](const CheckTrouble& trouble) { return trouble.error.code != ErrorCode::kNotRecorded; };
  return unreadable.empty() && std::ranges::none_of(unjudged, failed);
}

Result<CheckReport> check_run(const CheckOptions& options) {
  TTAP_ASSIGN(const Selection selection, select_some_passes(options.selection));
  CheckReport report{.path = selection.run->path.string(),
                     .filter = options.selection.filter,
                     .verified = options.verify,
                     .all = options.all};
  report.run = selection.run->number;
  report.runs = selection.run->runs;
  for (const SelectedPass& selected : selection.passes) {
    const auto pass = open_pass(selected);
    if (!pass.ok()) {
      if (selection.passes.size() == 1) return pass.error();
      report.unreadable.push_back(pass.error());
      continue;
    }
    check_pass(selected, *pass, selection, options, report);
    report.lost += losses_of(*pass);
    report.passes.push_back({selected.rank->number, selected.rank->pid, pass->info()});
  }
  // Which numbers the lost passes had is not known.
  if (options.selection.passes.empty()) {
    std::set<const Rank*> ranks;
    for (const SelectedPass& selected : selection.passes)
      if (ranks.insert(selected.rank).second) report.lost += lost_passes_of(*selected.rank);
  }
  return report;
}

}  // namespace ttap
