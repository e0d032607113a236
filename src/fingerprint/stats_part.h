#pragma once

#include <cmath>
#include <cstdint>

#include "ttap/api.h"
#include "ttap/fingerprint.h"

namespace ttap {

// The statistics of a part of a tensor, in the form that can be merged. From `finite` down over finite values only; an
// empty part has the values below.
struct StatsPart {
  uint64_t nan = 0;
  uint64_t pos_inf = 0;
  uint64_t neg_inf = 0;
  uint64_t zeros = 0;
  uint64_t subnormals = 0;
  uint64_t finite = 0;
  double min = static_cast<double>(INFINITY);
  double max = -static_cast<double>(INFINITY);
  double min_abs_nonzero = static_cast<double>(INFINITY);
  // The mean is mean + mean_rest. In one double it would be off by half a unit of its last place, and where it is
  // large against the spread that much in the distance of two means is felt in the merged variance.
  double mean = 0;
  double mean_rest = 0;
  double m2 = 0;  // sum of the squared distances from the mean
  double l1 = 0;
};

// Sets the mean to a + b, and to what rounding loses of it (Knuth's two-sum).
TTAP_HD inline void set_mean(StatsPart& part, double a, double b) {
  const double sum = a + b;
  const double b_of_sum = sum - a;
  part.mean = sum;
  part.mean_rest = (a - (sum - b_of_sum)) + (b - b_of_sum);
}

// Adds `part` to `into`. The order of merging shows in the last bits, so it is fixed wherever results must repeat.
TTAP_HD inline void merge(StatsPart& into, const StatsPart& part) {
  into.nan += part.nan;
  into.pos_inf += part.pos_inf;
  into.neg_inf += part.neg_inf;
  into.zeros += part.zeros;
  into.subnormals += part.subnormals;
  if (part.finite == 0) return;
  if (part.min < into.min) into.min = part.min;
  if (part.max > into.max) into.max = part.max;
  if (part.min_abs_nonzero < into.min_abs_nonzero) into.min_abs_nonzero = part.min_abs_nonzero;
  into.l1 += part.l1;
  if (into.finite == 0) {
    into.mean = part.mean;
    into.mean_rest = part.mean_rest;
    into.m2 = part.m2;
    into.finite = part.finite;
    return;
  }
  // Chan's formula: the means of the parts differ, and that difference is spread too.
  const double mine = static_cast<double>(into.finite);
  const double theirs = static_cast<double>(part.finite);
  const double share = theirs / (mine + theirs);
  const double delta = (part.mean - into.mean) + (part.mean_rest - into.mean_rest);
  into.m2 += part.m2 + delta * (mine * share) * delta;
  if (std::isinf(delta)) [[unlikely]]  // two means near the largest double, of either sign
    set_mean(into, into.mean * (mine / (mine + theirs)), part.mean * share);
  else
    set_mean(into, into.mean, into.mean_rest + delta * share);
  into.finite += part.finite;
}

inline Stats to_stats(const StatsPart& part) {
  Stats stats;
  stats.count = part.finite + part.nan + part.pos_inf + part.neg_inf;
  stats.nan = part.nan;
  stats.pos_inf = part.pos_inf;
  stats.neg_inf = part.neg_inf;
  stats.zeros = part.zeros;
  stats.subnormals = part.subnormals;
  if (part.finite == 0) return stats;
  // Adding zero turns −0 into 0: which of the two a minimum met first is chance.
  stats.min = part.min + 0.0;
  stats.max = part.max + 0.0;
  stats.max_abs = std::fmax(std::fabs(part.min), std::fabs(part.max));
  if (part.zeros != part.finite) stats.min_abs_nonzero = part.min_abs_nonzero;
  const double count = static_cast<double>(part.finite);
  // A sum that overflowed may have met its opposite on the way; the squares are beyond double all the same.
  const double m2 = std::isnan(part.m2) ? INFINITY : part.m2;
  const bool constant = part.min == part.max;
  stats.mean = constant ? stats.min : part.mean + 0.0;
  stats.std = constant ? 0.0 : std::sqrt(m2 / count);
  stats.l1 = part.l1;
  // The root of m2 + count · mean², without the square of the mean.
  stats.l2 = std::hypot(constant ? 0.0 : std::sqrt(m2), std::sqrt(count) * stats.mean);
  return stats;
}

}  // namespace ttap
