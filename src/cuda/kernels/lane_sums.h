#pragma once

#include <cstdint>

#include "cuda/kernels/double_sum.h"
#include "fingerprint/stats_part.h"

// What lanes, warps and blocks hand on: numbers that only have to be added or compared, so that merging is short.
namespace ttap::cuda {

// Over finite values, from `finite` down. Sums are of distances from a number that the whole tensor has in common, its
// centre: zero, or one of its values. The square of a value's distance from the mean is no more than the sum of all
// such squares, so a centre that is a value costs log2(count) bits at most, of the 50 more that these sums have.
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

// From sums of distances from `shift` to those from `centre`: with δ = shift − centre, Σ(d + δ) = Σd + nδ and
// Σ(d + δ)² = Σd² + δ(2Σd + nδ). MAY_BE_HUGE: of doubles, where nδ may be too large for one though the sum is not.
template <bool MAY_BE_HUGE>
TTAP_HD inline void set_sums_about(LaneSums& sums, double centre, double shift, double sum, double squares) {
  const DoubleSum delta = exact_sum(shift, -centre);
  const DoubleSum count = {static_cast<double>(sums.finite), 0};
  const DoubleSum own = {sum, 0};
  sums.sum = own + count * delta;
  sums.squares = DoubleSum{squares, 0} + delta * (own + sums.sum);
  if constexpr (MAY_BE_HUGE) {
    constexpr double kHuge = 0x1p960, kSmaller = 0x1p-64;
    if (fabs(delta.high) < kHuge) return;
    const DoubleSum less = {delta.high * kSmaller, delta.rest * kSmaller};
    const DoubleSum scaled = DoubleSum{sum * kSmaller, 0} + count * less;
    sums.sum = {scaled.high / kSmaller, scaled.rest / kSmaller};
  }
}

}  // namespace ttap::cuda
