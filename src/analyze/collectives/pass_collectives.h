#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "analyze/collectives/collective_pairs.h"
#include "ttap/api.h"
#include "ttap/run.h"

namespace ttap {

// What one rank gave to a result of a collective.
struct GivenByRank {
  CollectivePairs::Contributor from = {};
  std::vector<ContributedTensor> tensors = {};  // empty where there is no call
};

// What all ranks gave to a result of a collective.
struct GivenByRanks {
  std::vector<GivenByRank> ranks = {};
  std::string problem = {};  // why the ranks do not pair
};

// A record of what a collective wrote, read where it was used next: of the whole result, or of a part of its memory.
struct HeldResult {
  uint32_t record = kNoNumber;
  CollectiveResult result = {};
};

// The collectives of one pass on all ranks that were recorded.
class TTAP_API PassCollectives {
 public:
  // The passes must outlive it.
  explicit PassCollectives(std::vector<RankPass> ranks);

  // The collective that an event of a rank is, or is a part of; null for none. `part`: which of the ranks given.
  const CollectiveCall* at(size_t part, uint32_t event) const;
  GivenByRanks given_to(size_t part, uint32_t event, std::string_view path) const;
  // The records of a rank that hold the result of one collective and nothing that was written later.
  std::vector<HeldResult> held_results(size_t part) const;

  const std::vector<RankPass>& ranks() const { return ranks_; }

 private:
  std::vector<RankPass> ranks_;
  CollectivePairs pairs_;
};

}  // namespace ttap
