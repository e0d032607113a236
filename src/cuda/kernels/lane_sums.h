#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "cuda/kernels/double_sum.h"
#include "fingerprint/stats_part.h"

// What lanes, warps and blocks hand on: numbers that only have to be added or compared, so that merging is short.
namespace ttap::cuda {

// Over finite values, from `finite` down. Sums are of distances from a number that the whole tensor has in common, its
// centre: zero, or one of its values. The square of a value's distance from the mean is no more than the sum of all
// such squares, so a centre that is a value costs log2(count) bits at most; sums have 20 more than a double at least.
struct LaneSums {
  uint32_t nan = 0;
  uint32_t pos_inf = 0;
  uint32_t neg_inf = 0;
  uint32_t subnormals = 0;
  uint32_t zeros = 0;
  uint32_t finite = 0;
  double min = static_cast<double>(INFINITY);
  double max = -static_cast<double>(INFINITY);
  double min_abs_nonzero = static_cast<double>(INFINITY);
  double l1 = 0;
  DoubleSum sum;
  DoubleSum squares;
};

TTAP_HD inline void add(LaneSums& into, const LaneSums& other) {
  into.nan += other.nan;
  into.pos_inf += other.pos_inf;
  into.neg_inf += other.neg_inf;
  into.subnormals += other.subnormals;
  into.zeros += other.zeros;
  into.finite += other.finite;
  into.min = other.min < into.min ? other.min : into.min;
  into.max = other.max > into.max ? other.max : into.max;
  into.min_abs_nonzero = other.min_abs_nonzero < into.min_abs_nonzero ? other.min_abs_nonzero : into.min_abs_nonzero;
  into.l1 += other.l1;
  into.sum = into.sum + other.sum;
  into.squares = into.squares + other.squares;
}

// A value to take distances from: not one so large that they might be infinite. (Squares are beyond double then
// anyway.)
inline constexpr double kHuge = 0x1p960;
TTAP_HD inline double never_huge(double value) { return fabs(value) < kHuge ? value : 0; }

// From sums of distances from `shift` to those from `centre`: with δ = shift − centre, Σ(d + δ) = Σd + nδ and
// Σ(d + δ)² = Σd² + δ(2Σd + nδ).
TTAP_HD inline void set_sums_about(LaneSums& sums, double centre, double shift, double sum, double squares) {
  const DoubleSum delta = exact_sum(shift, -centre);
  const DoubleSum count = {static_cast<double>(sums.finite), 0};
  const DoubleSum own = {sum, 0};
  sums.sum = own + count * delta;
  sums.squares = DoubleSum{squares, 0} + delta * (own + sums.sum);
}

// A distance in 21 bits, so that it and its square times 2^11 are doubles without a rest.
TTAP_HD inline double short_shift(double distance) {
  constexpr uint64_t kKept = 0xFFFFFFFF00000000u;
  uint64_t bits;
  memcpy(&bits, &distance, sizeof bits);
  bits &= kKept;
  memcpy(&distance, &bits, sizeof bits);
  return distance;
}
// The same of few values whose distances were taken from centre + shift: nδ and nδ² are exact, and what is left is
// small enough to be added up plainly.
template <bool MAY_BE_HUGE>
TTAP_HD inline void set_sums_of_few(LaneSums& sums, double shift, double sum, double squares) {
  const double shifts = static_cast<double>(sums.finite) * shift;
  sums.sum = {shifts, sum};
  if constexpr (MAY_BE_HUGE)
    if (fabs(sum) >= kHuge) sums.sum = {sum, shifts};  // what is added plainly may be more than a double can hold
  sums.squares = {shifts * shift, fma(shift + shift, sum, squares)};
}

}  // namespace ttap::cuda
