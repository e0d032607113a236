#include "analyze/collectives/pass_collectives.h"

#include <utility>

namespace ttap {
namespace {

// What was last written to the memory that a record shows, where that was another call's: kNoNumber for nothing.
uint32_t last_write_to(const Pass& pass, const TensorRecord& record) {
  const EventRecord event = pass.event(record.event);
  for (uint32_t i = event.use_count; i-- > 0;) {
    const UseRecord use = pass.use(record.event, i);
    if (use.role != "part") break;
    if (use.path == record.path) return use.record;
  }
  return kNoNumber;
}

}  // namespace

PassCollectives::PassCollectives(std::vector<RankPass> ranks) : ranks_(std::move(ranks)) {
  std::vector<RankCollectives> collectives;
  for (const RankPass& each : ranks_) collectives.push_back(collectives_of(each));
  pairs_ = CollectivePairs(std::move(collectives));
}

const CollectiveCall* PassCollectives::at(size_t part, uint32_t event) const {
  return pairs_.ranks().at(part).calls.at(event);
}

GivenByRanks PassCollectives::given_to(size_t part, uint32_t event, std::string_view path) const {
  CollectivePairs::Paired paired = pairs_.contributors_to(part, event, path);
  GivenByRanks found{.problem = std::move(paired.problem)};
  const CollectiveCall* receiver = at(part, event);
  for (CollectivePairs::Contributor& from : paired.contributors) {
    GivenByRank& given = found.ranks.emplace_back(GivenByRank{.from = std::move(from)});
    if (given.from.call != nullptr)
      given.tensors = contribution_of(*ranks_[*given.from.part].pass, *given.from.call, receiver->group_rank, path);
  }
  return found;
}

std::vector<HeldResult> PassCollectives::held_results(size_t part) const {
  const Pass& pass = *ranks_.at(part).pass;
  const CollectiveCalls& calls = pairs_.ranks()[part].calls;
  std::vector<HeldResult> held;
  for (uint32_t i = 0; i < pass.tensor_count() && !calls.all().empty(); ++i) {
    const TensorRecord record = pass.tensor(i);
    if (!record.has_bytes || record.event >= pass.event_count() || calls.at(record.event) != nullptr) continue;
    const std::vector<CollectiveResult> all = results_behind(pass, calls, i);
    if (all.size() != 1) continue;
    if (goes_in(record.role)) {
      const uint32_t last = last_write_to(pass, record);
      if (last >= pass.tensor_count() || !is_without_value(pass.tensor(last))) continue;
      if (results_behind(pass, calls, last).size() != 1) continue;
    }
    held.push_back({.record = i, .result = all.front()});
  }
  return held;
}

}  // namespace ttap
