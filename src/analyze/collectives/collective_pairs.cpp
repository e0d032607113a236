#include "analyze/collectives/collective_pairs.h"

#include <fmt/format.h>

#include <algorithm>

namespace ttap {

RankCollectives collectives_of(const RankPass& of) {
  const PassInfo& info = of.pass->info();
  return {.rank = of.rank,
          .calls = CollectiveCalls(*of.pass),
          .recorded_to_end = info.ending == Ending::kComplete,
          .lost_events = info.drops.events};
}

CollectivePairs::CollectivePairs(std::vector<RankCollectives> ranks) : ranks_(std::move(ranks)) {
  for (size_t part = 0; part < ranks_.size(); ++part)
    for (const CollectiveCall& call : ranks_[part].calls.all()) {
      if (call.channel.empty()) continue;
      Channel& channel = channels_[call.channel];
      const auto [end, is_new] = channel.ends.try_emplace(call.group_rank, End{.part = part});
      if (end->second.part != part) {
        channel.problem = fmt::format("ranks {} and {} are both rank {} of group {}", ranks_[end->second.part].rank,
                                      ranks_[part].rank, call.group_rank, call.group);
        continue;
      }
      end->second.calls.push_back(&call);
    }
  for (auto& [name, channel] : channels_)
    if (channel.problem.empty()) check(channel);
}

void CollectivePairs::check(Channel& channel) const {
  const End& first = channel.ends.begin()->second;
  const auto rank_of = [&](const End& end) { return ranks_[end.part].rank; };
  const std::string& group = first.calls.front()->group;
  for (const auto& [group_rank, end] : channel.ends) {
    if (ranks_[end.part].lost_events > 0) {
      channel.problem = fmt::format("rank {} lost {} events, perhaps calls of group {}", rank_of(end),
                                    ranks_[end.part].lost_events, group);
      return;
    }
    const size_t common = std::min(first.calls.size(), end.calls.size());
    for (size_t i = 0; i < common; ++i) {
      const CollectiveCall &x = *first.calls[i], &y = *end.calls[i];
      if (x.group_size != y.group_size || (!x.is_point_to_point() && x.op != y.op)) {
        channel.problem =
            fmt::format("the {} of group {} is {} of {} on rank {} and {} of {} on rank {}", ordinal(x.number), group,
                        x.op, x.group_size, rank_of(first), y.op, y.group_size, rank_of(end));
        return;
      }
    }
    const End& shorter = end.calls.size() < first.calls.size() ? end : first;
    if (first.calls.size() != end.calls.size() && ranks_[shorter.part].recorded_to_end) {
      channel.problem = fmt::format("of group {} this pass has {} on rank {} and {} on rank {}", group,
                                    first.calls.size(), rank_of(first), end.calls.size(), rank_of(end));
      return;
    }
  }
}

CollectivePairs::Paired CollectivePairs::contributors_to(size_t part, uint32_t event, std::string_view path) const {
  Paired paired;
  const CollectiveCall* call = ranks_[part].calls.at(event);
  if (call == nullptr || call->channel.empty()) {
    paired.problem = "the recording does not tell which ranks took part";
    return paired;
  }
  const Channel& channel = channels_.at(call->channel);
  if (!channel.problem.empty()) {
    paired.problem = "the ranks do not pair: " + channel.problem;
    return paired;
  }
  for (uint32_t group_rank = 0; group_rank < call->group_size; ++group_rank) {
    if (!may_contribute(*call, group_rank, path)) continue;
    Contributor contributor{.group_rank = group_rank};
    const auto end = channel.ends.find(group_rank);
    if (end == channel.ends.end()) {
      contributor.missing = fmt::format("rank {} of group {} was not recorded", group_rank, call->group);
    } else if (end->second.calls.size() < call->number) {
      contributor.missing = fmt::format("the recording of rank {} ends before it", ranks_[end->second.part].rank);
    } else {
      contributor.part = end->second.part;
      contributor.call = end->second.calls[call->number - 1];
    }
    paired.contributors.push_back(std::move(contributor));
  }
  return paired;
}

}  // namespace ttap
