#include "analyze/diff/blame/rank_causes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "analyze/collectives/collective_pairs.h"

namespace ttap {
namespace {

// A result whose error is this many times that of the contributions has more than these explain.
constexpr double kGrowthOfCollective = 8;
// No program sends a value through so many collectives; a file that was made to say so shall not exhaust the stack.
constexpr size_t kMostCollectives = 1000;

class RankBlame {
 public:
  explicit RankBlame(std::vector<RankDiff> ranks) : ranks_(std::move(ranks)) {
    std::vector<RankCollectives> collectives;
    for (RankDiff& each : ranks_) {
      positions_.push_back(positions_of(each.tensors, &Match::a, each.a->tensor_count()));
      const PassInfo& info = each.a->info();
      collectives.push_back({.rank = each.rank,
                             .calls = std::move(each.collectives),
                             .recorded_to_end = info.ending == Ending::kComplete,
                             .lost_events = info.drops.events});
    }
    pairs_ = CollectivePairs(std::move(collectives));
  }

  void find() {
    for (size_t part = 0; part < ranks_.size(); ++part)
      for (uint32_t i = 0; i < ranks_[part].tensors.size(); ++i) decide(part, i);
  }

 private:
  struct Found {
    uint32_t agree = 0;
    bool same_bits = true;
    double error = 0;  // the largest of a contribution; NaN: not measured
    std::vector<std::string> unknown = {};
  };

  const CollectiveCalls& calls(size_t part) const { return pairs_.ranks()[part].calls; }
  TensorDiff& at(size_t part, uint32_t i) { return ranks_[part].tensors[i]; }

  void replace_cause(TensorDiff& tensor, Cause cause, const std::string& reason, uint32_t source = kNoTensor) {
    tensor.reason.resize(std::min(tensor.cause_reason, tensor.reason.size()));
    tensor.cause = Cause::kNone;
    set_cause(tensor, cause, reason, source);
  }

  void decide(size_t part, uint32_t i) {
    const TensorDiff& tensor = at(part, i);
    if (!differs(tensor) || tensor.cause != Cause::kUnknown || tensor.match.a == kNoTensor) return;
    if (!decided_.insert({part, i}).second) return;
    Found found;
    std::string texts;
    for (const CollectiveResult& result : results_behind(*ranks_[part].a, calls(part), tensor.match.a)) {
      const CollectiveCall& call = *calls(part).at(result.event);
      texts += (texts.empty() ? "" : " and ") + call_text(call);
      if (look_at_contributions(part, i, call, result.path, found)) return;
    }
    if (texts.empty()) return;
    if (!found.unknown.empty())
      return replace_cause(
          at(part, i), Cause::kUnknown,
          fmt::format("of what the ranks gave to {}, not all was compared: {}", texts, fmt::join(found.unknown, ", ")));
    judge_agreeing(at(part, i), texts, found);
  }

  // Whether a contribution differs, so that the cause is known.
  bool look_at_contributions(size_t part, uint32_t i, const CollectiveCall& call, const std::string& path,
                             Found& found) {
    const CollectivePairs::Paired paired = pairs_.contributors_to(part, call.event, path);
    if (!paired.problem.empty()) found.unknown.push_back(paired.problem);
    for (const CollectivePairs::Contributor& from : paired.contributors) {
      if (!from.part) {
        found.unknown.push_back(fmt::format("rank {} of group {}", from.group_rank, call.group));
        continue;
      }
      const auto given = contribution_of(*ranks_[*from.part].a, *from.call, call.group_rank, path);
      bool compared = !given.empty();
      for (const ContributedTensor& each : given) {
        const uint32_t position =
            each.record < positions_[*from.part].size() ? positions_[*from.part][each.record] : kNoTensor;
        if (position == kNoTensor) {
          compared = false;
          continue;
        }
        const TensorDiff& tensor = at(*from.part, position);
        if (differs(tensor) || tensor.verdict == Verdict::kFlipped) {
          inherit(part, i, *from.part, position, call);
          return true;
        }
        compared = compared && (tensor.verdict == Verdict::kIdentical || tensor.verdict == Verdict::kWithin);
        if (tensor.verdict == Verdict::kIdentical) continue;
        found.same_bits = false;
        const double error = is_measured(tensor) ? relative_error(tensor) : std::nan("");
        found.error = error > found.error || std::isnan(error) ? error : found.error;
      }
      compared ? void(++found.agree) : found.unknown.push_back(fmt::format("rank {}", ranks_[*from.part].rank));
    }
    return false;
  }

  // From what made the contribution, which may have come out of a collective itself.
  void inherit(size_t part, uint32_t i, size_t from, uint32_t position, const CollectiveCall& call) {
    if (++hops_ < kMostCollectives) decide(from, position);
    --hops_;
    const TensorDiff& given = at(from, position);
    const bool is_own = given.cause == Cause::kIntroduced || given.source == kNoTensor;
    const uint32_t pass = is_own || given.source_pass == kNoTensor ? ranks_[from].pass : given.source_pass;
    const uint32_t source = is_own ? position : given.source;
    TensorDiff& tensor = at(part, i);
    const TensorRecord record = ranks_[from].a->tensor(given.match.a);
    replace_cause(tensor, Cause::kInherited,
                  fmt::format("what rank {} gave to {}, differs: {}", ranks_[from].rank, call_text(call),
                              to_string(record.key())),
                  source);
    if (pass != ranks_[part].pass) tensor.source_pass = pass;
  }

  void judge_agreeing(TensorDiff& tensor, const std::string& texts, const Found& found) {
    const std::string which = found.agree == 1 ? fmt::format("the one contribution to {}, agrees", texts)
                                               : fmt::format("all {} contributions to {}, agree", found.agree, texts);
    if (found.same_bits) return replace_cause(tensor, Cause::kIntroduced, which + " bit for bit");
    const double growth = is_measured(tensor) ? relative_error(tensor) / found.error : std::nan("");
    if (growth >= kGrowthOfCollective)
      return replace_cause(tensor, Cause::kIntroduced,
                           fmt::format("{} within tolerance; the relative error grew {:.2g} times", which, growth));
    replace_cause(tensor, std::isnan(growth) ? Cause::kUnknown : Cause::kInherited, which + " within tolerance");
  }

  std::vector<RankDiff> ranks_;
  std::vector<std::vector<uint32_t>> positions_;  // of each record of A among the tensors compared
  CollectivePairs pairs_;
  std::set<std::pair<size_t, uint32_t>> decided_;
  size_t hops_ = 0;  // of decide()
};

}  // namespace

void find_causes_in_other_ranks(std::vector<RankDiff> ranks) {
  const auto has_unknown = [](const RankDiff& rank) {
    return std::ranges::any_of(
        rank.tensors, [](const TensorDiff& tensor) { return differs(tensor) && tensor.cause == Cause::kUnknown; });
  };
  if (std::ranges::any_of(ranks, has_unknown)) RankBlame(std::move(ranks)).find();
}

}  // namespace ttap
