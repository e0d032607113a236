#include "analyze/check/rank_origins.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "analyze/values/number.h"

namespace ttap {
namespace {

// No program sends a value through so many collectives; a file that was made to say so shall not exhaust the stack.
constexpr size_t kMostHops = 1000;

}  // namespace

RankOrigins::RankOrigins(std::vector<RankPass> ranks) : ranks_(std::move(ranks)) {
  std::vector<RankCollectives> collectives;
  for (const RankPass& each : ranks_) collectives.push_back(collectives_of(each));
  pairs_ = CollectivePairs(std::move(collectives));
  for (size_t part = 0; part < ranks_.size(); ++part) {
    origins_.push_back(find_origins(*ranks_[part].pass, pairs_.ranks()[part].calls));
    states_.emplace_back(origins_.back().all().size(), State::kOpen);
  }
  for (size_t part = 0; part < ranks_.size(); ++part)
    for (size_t origin = 0; origin < states_[part].size(); ++origin) resolve({part, origin});
  judge_faults();
}

// What goes on, on any rank, is not harmless where it arose; and what is no fault there is none elsewhere.
void RankOrigins::judge_faults() {
  for (Origins& origins : origins_)
    for (Origin& origin : origins.all_) {
      if (origin.became_nan) origin.harmless = false;
      for (const Origin* each = &origin; each->source && !origin.harmless; each = &at(*each->source))
        at(*each->source).harmless = false;
    }
  for (size_t part = 0; part < ranks_.size(); ++part)
    for (size_t i = 0; i < origins_[part].all_.size(); ++i)
      if (const OriginPlace root = root_of({part, i}); at({part, i}).source)
        at({part, i}).source_is_fault = at(root).is_fault();
}

Contribution RankOrigins::contribution_from(const CollectivePairs::Contributor& from, uint32_t receiver,
                                            std::string_view path) const {
  Contribution found{.group_rank = from.group_rank, .part = from.part, .missing = from.missing};
  if (from.call == nullptr) return found;
  const Pass& pass = *ranks_[*from.part].pass;
  found.event = from.call->event;
  found.tensors = contribution_of(pass, *from.call, receiver, path);
  found.known = !found.tensors.empty();
  for (const ContributedTensor& given : found.tensors) {
    if (given.record < pass.tensor_count() && !can_be_nonfinite(pass.tensor(given.record).dtype)) continue;
    const auto stats = given.record < pass.tensor_count() ? stats_of(pass, given.record) : Result<Stats>(Error{});
    found.known = found.known && stats.ok();
    if (!stats.ok()) continue;
    found.nan = found.nan || stats->nan > 0;
    found.inf = found.inf || stats->pos_inf > 0 || stats->neg_inf > 0;
  }
  if (!found.known) found.missing = fmt::format("what rank {} gave was not recorded", ranks_[*from.part].rank);
  return found;
}

std::vector<CollectiveEvidence> RankOrigins::look_at_contributions(OriginPlace place) const {
  std::vector<CollectiveEvidence> evidence = at(place).collectives;
  for (CollectiveEvidence& each : evidence) {
    const CollectiveCall& call = *collective_at(place.part, each.result.event);
    CollectivePairs::Paired paired = pairs_.contributors_to(place.part, call.event, each.result.path);
    each.problem = std::move(paired.problem);
    for (const CollectivePairs::Contributor& from : paired.contributors)
      each.contributions.push_back(contribution_from(from, call.group_rank, each.result.path));
  }
  return evidence;
}

std::optional<OriginPlace> RankOrigins::source_of(OriginPlace place, bool nan,
                                                  const std::vector<CollectiveEvidence>& evidence) {
  std::optional<OriginPlace> found;
  for (const CollectiveEvidence& each : evidence)
    for (const Contribution& from : each.contributions) {
      if (!from.part || *from.part == place.part || !(nan ? from.nan : from.nan || from.inf)) continue;
      for (const ContributedTensor& given : from.tensors) {
        const Descent descent = origins_[*from.part].descent(given.record);
        const auto origin = nan || !descent.inf ? descent.nan : descent.inf;
        if (!origin) continue;
        const OriginPlace source{*from.part, *origin};
        if (++hops_ < kMostHops) resolve(source);
        --hops_;
        // One that is under way would come from itself.
        if (states_[source.part][source.origin] != State::kDone) continue;
        if (!found || (!at(*found).is_fault() && at(source).is_fault())) found = source;
      }
    }
  return found;
}

void RankOrigins::resolve(OriginPlace place) {
  State& state = states_[place.part][place.origin];
  if (state != State::kOpen) return;
  state = State::kInProgress;
  if (at(place).collectives.empty()) {
    state = State::kDone;
    return;
  }
  std::vector<CollectiveEvidence> evidence = look_at_contributions(place);
  const bool nan = at(place).nan;
  const auto source = source_of(place, nan, evidence);
  bool all_known = true;
  bool inf = false;
  for (const CollectiveEvidence& each : evidence) {
    all_known = all_known && each.problem.empty() && std::ranges::all_of(each.contributions, &Contribution::known);
    inf = inf || std::ranges::any_of(each.contributions, &Contribution::inf);
  }
  const auto inf_source = nan && inf ? source_of(place, false, evidence) : std::nullopt;
  Origin& origin = at(place);
  origin.collectives = std::move(evidence);
  if (source) {
    origin.kind = OriginKind::kFromRank;
    origin.source = source;
  } else if (all_known) {
    origin.kind = nan && inf ? OriginKind::kNanFromInf : OriginKind::kMade;
  }
  if (origin.kind == OriginKind::kNanFromInf) {
    std::optional<size_t> inf_from;
    for (const CollectiveEvidence& each : origin.collectives)
      for (const Contribution& from : each.contributions)
        if (from.part == place.part && from.inf)
          for (const ContributedTensor& given : from.tensors)
            if (!inf_from) inf_from = origins_[place.part].descent(given.record).inf;
    if (!inf_from && inf_source) {
      inf_from = origins_[place.part].all_.size();
      Origin brought{.kind = OriginKind::kFromRank, .tensor = origin.tensor, .event = origin.event};
      brought.collectives = origin.collectives;
      brought.source = inf_source;
      origins_[place.part].all_.push_back(std::move(brought));
      states_[place.part].push_back(State::kDone);
    }
    at(place).inf_from = inf_from;
    if (inf_from) origins_[place.part].all_[*inf_from].became_nan = place.origin;
  }
  states_[place.part][place.origin] = State::kDone;
}

OriginPlace RankOrigins::root_of(OriginPlace place) const {
  while (at(place).source) place = *at(place).source;
  return place;
}

std::vector<Spread> RankOrigins::spread_of(OriginPlace root) const {
  // How many collectives lie between, then which one: the order in which it went.
  std::map<std::tuple<size_t, size_t, uint32_t>, std::set<size_t>> found;
  for (size_t part = 0; part < ranks_.size(); ++part)
    for (size_t i = 0; i < origins_[part].all().size(); ++i) {
      const Origin& origin = origins_[part].all()[i];
      if (!origin.source || root_of({part, i}) != root) continue;
      size_t hops = 0;
      for (OriginPlace at_place{part, i}; at(at_place).source; at_place = *at(at_place).source) ++hops;
      for (const CollectiveEvidence& each : origin.collectives)
        for (const Contribution& from : each.contributions)
          if (from.part == origin.source->part && (origin.nan ? from.nan : from.nan || from.inf))
            found[{hops, *from.part, from.event}].insert(part);
    }
  std::vector<Spread> spread;
  for (const auto& [key, to] : found)
    spread.push_back({.event = std::get<2>(key), .from = std::get<1>(key), .to = {to.begin(), to.end()}});
  return spread;
}

}  // namespace ttap
