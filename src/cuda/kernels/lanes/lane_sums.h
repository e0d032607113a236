#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "cuda/kernels/lanes/huge_sum.h"
#include "fingerprint/stats_part.h"

// What lanes, warps and blocks hand on: numbers that only have to be added or compared, so that merging is short.
namespace ttap::cuda {

// Over finite values, from `finite` down. Sums are of distances from a number that the whole tensor has in common, its
// centre: one of its values, or zero. Sums of huge values may be in units (huge_sum.h). The square of a value's
// distance from the mean is no more than the sum of all such squares, so a centre that is a value costs log2(count)
// bits at most; sums have 19 more than a double at least. (Zero is that of formats whose sums need none, and where no
// value can be had.)
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

// MAY_BE_HUGE: of values of which some may be.
template <bool MAY_BE_HUGE = false>
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
  into.sum = MAY_BE_HUGE ? sum_of_huge(into.sum, other.sum) : into.sum + other.sum;
  into.squares = MAY_BE_HUGE ? sum_of_huge(into.squares, other.squares) : into.squares + other.squares;
}

// Where else to look for a centre when the first value is not finite: at these many vectors, or all where there are no
// more. Their distances have nothing to do with the length of rows, of which the beginnings may all be NaN.
inline constexpr uint32_t kCentrePlaces = 2048;
TTAP_HD inline uint64_t centre_place(uint32_t number, uint64_t bytes) {
  constexpr uint64_t kVector = 16;
  const uint64_t vectors = (bytes + kVector - 1) / kVector;
  if (vectors <= kCentrePlaces) return number * kVector;
  const uint64_t part = number * 0x9E3779B97F4A7C15u;  // of 2^64: the golden ratio's multiples are far from each other
#if defined(__CUDA_ARCH__)
  return __umul64hi(part, vectors) * kVector;
#else
  return static_cast<uint64_t>(static_cast<unsigned __int128>(part) * vectors >> 64) * kVector;
#endif
}

// What a lane found of its values' distances from its shift: nothing huge, but for what `huge` has.
struct ShiftedSums {
  double shift = 0;
  double sum = 0;
  double squares = 0;
  // What rounding took off these, where the lane is a long one: its shift may be an outlier, and then the mean of the
  // others is what is left of large sums.
  double sum_rest = 0;
  double squares_rest = 0;

  TTAP_HD void add_batch(double batch_sum, double batch_squares) {
    const DoubleSum sums = exact_sum(sum, batch_sum);
    const DoubleSum of_squares = exact_sum(squares, batch_squares);
    sum = sums.high;
    sum_rest += sums.rest;
    squares = of_squares.high;
    squares_rest += of_squares.rest;
  }
};

// Adds what was huge. `squares_in_units` is called where the others' squares need it.
template <class Squares>
TTAP_HD inline void finish_huge(LaneSums& sums, const HugeSums& huge, const Squares& squares_in_units) {
  if (huge.sum.high != 0) sums.sum = out_of_units(scaled(sums.sum, 1 / kHugeUnit) + huge.sum);
  if (fabs(sums.squares.high) < kOrdinary && fabs(sums.squares.rest) < kOrdinary && huge.squares.high == 0) return;
  sums.squares = out_of_units(squares_in_units() + huge.squares);
}

// From sums of distances from `shift` to those from `centre`: with δ = shift − centre, Σ(d + δ) = Σd + nδ and
// Σ(d + δ)² = Σd² + δ(2Σd + nδ).
template <bool MAY_BE_HUGE>
TTAP_HD inline void set_sums_about(LaneSums& sums, double centre, const ShiftedSums& found, const HugeSums& huge) {
  const DoubleSum delta = exact_sum(found.shift, -centre);
  const DoubleSum count = {static_cast<double>(sums.finite), 0};
  const DoubleSum own = {found.sum, found.sum_rest};
  sums.sum = own + count * delta;
  const DoubleSum twice = own + sums.sum;
  const DoubleSum squares = {found.squares, found.squares_rest};
  sums.squares = squares + delta * twice;
  if constexpr (MAY_BE_HUGE)
    finish_huge(sums, huge, [&] {
      return scaled(squares, 1 / kHugeUnit) + scaled(delta, 1 / kHugeUnitRoot) * scaled(twice, 1 / kHugeUnitRoot);
    });
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
TTAP_HD inline void set_sums_of_few(LaneSums& sums, const ShiftedSums& found, const HugeSums& huge) {
  const double count = static_cast<double>(sums.finite);
  const auto squares_about = [&](double shift, double sum, double squares) {
    return DoubleSum{count * shift * shift, fma(shift + shift, sum, squares)};
  };
  sums.sum = {count * found.shift, found.sum};
  sums.squares = squares_about(found.shift, found.sum, found.squares);
  if constexpr (MAY_BE_HUGE)
    finish_huge(sums, huge, [&] {
      return squares_about(found.shift * (1 / kHugeUnitRoot), found.sum * (1 / kHugeUnitRoot),
                           found.squares * (1 / kHugeUnit));
    });
}

}  // namespace ttap::cuda
