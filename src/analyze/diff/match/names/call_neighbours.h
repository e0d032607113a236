#pragma once

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "analyze/diff/match/pairing.h"
#include "analyze/diff/sides/side.h"

namespace ttap {

// Which calls come before and after each other on both sides, counting only those that compute something and have no
// others inside.
class CallNeighbours {
 public:
  CallNeighbours(const Side& a, const Side& b) : a_(a), b_(b) {}

  // Which calls have tensors that are matched with each other.
  void find_matched(const Pairing& pairing);
  // How many of the two calls before and the two after those of two tensors are matched with each other, 0 to 1; 0
  // where they are of other calls.
  double context(uint32_t a_tensor, uint32_t b_tensor) const;

 private:
  struct Calls {
    explicit Calls(const Side& side);
    const Side& side;
    std::vector<int64_t> place;  // per event; -1 for others
    int64_t count = 0;
    int64_t of(uint32_t tensor) const;
  };
  const Calls a_, b_;
  std::set<std::pair<int64_t, int64_t>> matched_;
};

}  // namespace ttap
