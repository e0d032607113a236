#include <algorithm>
#include <memory>
#include <set>
#include <span>

#include "analyze/check/warm_up.h"
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
CheckedTensor::Because because_of(const CheckedStep& step, size_t part, size_t tensor) {
  const Origins& origins = step.origins->of(part);
  const Descent from = origins.descent(tensor);
  const auto is_fault = [&](std::optional<size_t> origin) { return origin && origins.all()[*origin].is_fault(); };
  const size_t number = is_fault(from.nan) || !from.inf ? *from.nan : *from.inf;
  const OriginPlace root = step.origins->root_of({part, number});
  const bool from_rank = root.part != part;
  return {origins.all()[number].kind, !origins.arose_in(tensor) || from_rank, is_fault(from.nan) || is_fault(from.inf),
          from_rank ? std::optional(step.origins->ranks()[root.part].rank) : std::nullopt};
}

FirstFinding describe_first(const CheckedStep& step, OriginPlace place) {
  OriginReport origin_report = report_origin(step, place);
  FirstFinding first =
      describe_first(step.selected[place.part], *step.passes[place.part], origin_report.first.tensor.counts);
  first.origin_report = std::move(origin_report);
  return first;
}

// The passes of the other ranks that were recorded together with this one: of each rank number the process that is the
// same in order, as a launcher that restarts its workers leaves several.
std::vector<SelectedPass> passes_beside(const Run& run, const SelectedPass& selected) {
  const auto place_of = [&](const Rank& rank) {
    return std::ranges::count_if(std::span(run.ranks.data(), &rank),
                                 [&](const Rank& before) { return before.number == rank.number; });
  };
  std::vector<SelectedPass> found;
  for (const Rank& rank : run.ranks) {
    if (place_of(rank) != place_of(*selected.rank)) continue;
    for (const PassFile& file : rank.passes)
      if (file.number == selected.file->number) found.push_back({&rank, &file});
  }
  return found;
}

// Opens the passes of other ranks only where a collective may have brought something from there.
class Steps {
 public:
  explicit Steps(const Run& run) : run_(run) {}

  // With the place of the pass in it.
  std::pair<const CheckedStep&, size_t> around(const SelectedPass& selected, const std::shared_ptr<const Pass>& pass) {
    for (size_t i = 0; i < step_.selected.size(); ++i)
      if (step_.selected[i].file == selected.file) return {step_, i};
    step_ = {};
    const bool alone = CollectiveCalls(*pass).all().empty();
    for (const SelectedPass& each : alone ? std::vector{selected} : passes_beside(run_, selected)) {
      const bool is_this = each.file == selected.file;
      auto opened = is_this ? Result<std::shared_ptr<const Pass>>(pass) : open(each);
      if (!opened.ok()) continue;
      step_.selected.push_back(each);
      step_.passes.push_back(std::move(opened).value());
    }
    std::vector<RankPass> ranks;
    for (size_t i = 0; i < step_.selected.size(); ++i)
      ranks.push_back({step_.selected[i].rank->number, step_.passes[i].get()});
    step_.origins.emplace(std::move(ranks));
    const auto found = std::ranges::find(step_.selected, selected.file, &SelectedPass::file);
    return {step_, static_cast<size_t>(found - step_.selected.begin())};
  }

 private:
  static Result<std::shared_ptr<const Pass>> open(const SelectedPass& selected) {
    TTAP_ASSIGN(Pass pass, open_pass(selected));
    return std::make_shared<const Pass>(std::move(pass));
  }

  const Run& run_;
  CheckedStep step_;
};

// Of the ranks of one pass nobody knows which was first. One of which it is known how it arose is shown before what
// came out of a collective nobody knows how.
bool is_better(const FirstFinding& first, uint32_t pass, std::optional<size_t> number, const Origins& origins) {
  const bool is_open = first.origin_report && first.origin_report->first.kind == OriginKind::kUnknown &&
                       !first.origin_report->first.collectives.empty() && first.tensor.pass == pass;
  return is_open && number && origins.all()[*number].kind != OriginKind::kUnknown;
}

// The first fault is shown in detail, wherever it is; while there is none, the first that was found.
void take_found(const SelectedPass& selected, const std::shared_ptr<const Pass>& pass,
                const std::vector<Nonfinite>& found, Steps& steps, CheckReport& report) {
  if (!has_uses(*pass)) {
    if (!report.first || !report.first->is_fault()) report.first = describe_first(selected, *pass, found.front());
    for (const Nonfinite& nonfinite : found) report.found.push_back(checked_tensor(selected, *pass, nonfinite));
    return;
  }
  const auto [step, part] = steps.around(selected, pass);
  const Origins& origins = step.origins->of(part);
  const std::optional<size_t> number = origins.first_of(found);
  const bool fault = !number || origins.all()[*number].is_fault();
  if (!report.first ||
      (fault && (!report.first->is_fault() || is_better(*report.first, pass->info().number, number, origins))))
    report.first = number ? describe_first(step, step.origins->root_of({part, *number}))
                          : describe_first(selected, *pass, found.front());
  for (const Nonfinite& nonfinite : found) {
    CheckedTensor tensor = checked_tensor(selected, *pass, nonfinite);
    tensor.because = because_of(step, part, nonfinite.tensor);
    report.found.push_back(std::move(tensor));
  }
}

void check_pass(const SelectedPass& selected, const std::shared_ptr<const Pass>& opened, const Selection& selection,
                const CheckOptions& options, Steps& steps, CheckReport& report) {
  const Pass& pass = *opened;
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
  report.without_value += found.without_value;
  if (!found.found.empty()) take_found(selected, opened, found.found, steps, report);
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
  // What ranks exchange goes from one to the other within a pass, so all of them come before the next one.
  std::vector<SelectedPass> passes = selection.passes;
  std::ranges::stable_sort(passes, {}, [](const SelectedPass& each) { return each.file->number; });
  Steps steps(*selection.run);
  for (const SelectedPass& selected : passes) {
    auto pass = open_pass(selected);
    if (!pass.ok()) {
      if (selection.passes.size() == 1) return pass.error();
      report.unreadable.push_back(pass.error());
      continue;
    }
    if (is_warm_up(*pass)) {
      ++report.warm_ups;
      continue;
    }
    report.lost += losses_of(*pass);
    report.passes.push_back({selected.rank->number, selected.rank->pid, pass->info()});
    check_pass(selected, std::make_shared<const Pass>(std::move(pass).value()), selection, options, steps, report);
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
