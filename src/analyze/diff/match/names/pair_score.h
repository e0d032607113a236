#pragma once

#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyze/diff/match/names/leftovers.h"

namespace ttap {

// How well two leftovers go together by what they are, wherever they stand.
class PairScore {
 public:
  explicit PairScore(const LeftoverPair& left);

  // What pulls two tensors together; 0 and less: they are not a pair.
  double score(const Traits& a, const Traits& b) const;
  // The share of what they are that agrees: 0 when they cannot be a pair.
  static double fit(const Traits& a, const Traits& b);
  // Whether other tensors of these two calls are matched with each other.
  static bool is_bound(const Traits& a, const Traits& b);
  double name(const Traits& a, const Traits& b) const;
  static double numbers(const Traits& a, const Traits& b);
  // How much better one of the two names fits another: 0 or below.
  double contrast(const Traits& a, const Traits& b) const;

  // Takes names that were matched with each other again and again for a renaming. Whether there was one.
  bool learn(std::span<const std::pair<const Traits*, const Traits*>> pairs);

 private:
  void find_best();

  size_t columns_ = 0;
  std::vector<float> likeness_;  // of patterns, a row for each of A; empty when there are too many of them
  std::vector<float> best_a_, best_b_;
};

}  // namespace ttap
