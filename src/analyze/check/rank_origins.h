#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analyze/check/origin.h"
#include "analyze/collectives/collective_pairs.h"
#include "ttap/run.h"

namespace ttap {

// How NaN or Inf went from one rank to others.
struct Spread {
  uint32_t event = kNoEvent;  // of the collective, on the rank that gave
  size_t from = 0;            // which of the ranks
  std::vector<size_t> to = {};
};

// Where the NaN and Inf of a pass came from on all its ranks. A value that came out of a collective is followed to the
// rank whose contribution held it:
//   from_rank     a contribution of another rank held it
//   made          every contribution is known and finite: the sum overflowed
//   nan_from_inf  every contribution is known, and some are Inf
//   unknown       a contribution is not known, or the ranks do not pair
class RankOrigins {
 public:
  explicit RankOrigins(std::vector<RankPass> ranks);

  const Origins& of(size_t part) const { return origins_[part]; }
  const std::vector<RankPass>& ranks() const { return ranks_; }
  const CollectiveCall* collective_at(size_t part, uint32_t event) const {
    return pairs_.ranks()[part].calls.at(event);
  }
  // The origin that an origin comes from, over however many ranks; itself unless it is kFromRank.
  OriginPlace root_of(OriginPlace place) const;
  // The collectives that brought what arose there to other ranks, in the order in which it went.
  std::vector<Spread> spread_of(OriginPlace root) const;

 private:
  enum class State : uint8_t { kOpen, kInProgress, kDone };
  Origin& at(OriginPlace place) { return origins_[place.part].all_[place.origin]; }
  const Origin& at(OriginPlace place) const { return origins_[place.part].all_[place.origin]; }
  void resolve(OriginPlace place);
  void judge_faults();
  Contribution contribution_from(const CollectivePairs::Contributor& from, uint32_t receiver,
                                 std::string_view path) const;
  std::vector<CollectiveEvidence> look_at_contributions(OriginPlace place) const;
  // Origins of other ranks of the NaN, or of the Inf, in the contributions: a fault first.
  std::optional<OriginPlace> source_of(OriginPlace place, bool nan, const std::vector<CollectiveEvidence>& evidence);

  std::vector<RankPass> ranks_;
  CollectivePairs pairs_;
  std::vector<Origins> origins_;
  std::vector<std::vector<State>> states_;
  size_t hops_ = 0;  // of resolve()
};

}  // namespace ttap
