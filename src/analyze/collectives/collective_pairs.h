#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analyze/collectives/collective_call.h"
#include "ttap/run.h"

namespace ttap {

// The same pass of one rank of a run.
struct RankPass {
  uint32_t rank = 0;
  const Pass* pass = nullptr;  // must outlive whoever is given it
};

// The collectives of one rank in one pass.
struct RankCollectives {
  uint32_t rank = 0;
  CollectiveCalls calls = {};
  bool recorded_to_end = true;  // else later calls may be missing
  uint64_t lost_events = 0;     // calls may be missing anywhere
};
RankCollectives collectives_of(const RankPass& of);

// Which calls of several ranks are one collective: the n-th of a group in a pass on one rank and the n-th on another.
// Nothing is guessed: where the calls of a group do not agree in number and operator, none of them is paired.
class CollectivePairs {
 public:
  CollectivePairs() = default;
  explicit CollectivePairs(std::vector<RankCollectives> ranks);

  struct Contributor {
    uint32_t group_rank = 0;
    std::optional<size_t> part = {};  // which of the ranks given; nothing where its call was not recorded
    const CollectiveCall* call = nullptr;
    std::string missing = {};  // why there is no call
  };
  struct Paired {
    std::vector<Contributor> contributors = {};  // by group rank; with the rank that asks
    std::string problem = {};                    // why the ranks do not pair
  };
  // Whose values reach result `path` of the collective with this event of a rank.
  Paired contributors_to(size_t part, uint32_t event, std::string_view path) const;

  const std::vector<RankCollectives>& ranks() const { return ranks_; }

 private:
  struct End {
    size_t part = 0;
    std::vector<const CollectiveCall*> calls = {};  // in order
  };
  struct Channel {
    std::map<uint32_t, End> ends = {};  // by group rank
    std::string problem = {};
  };
  void check(Channel& channel) const;

  std::vector<RankCollectives> ranks_;
  std::map<std::string, Channel> channels_;
};

}  // namespace ttap
