#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "cuda/kernels/lanes/double_sum.h"

// Sums of doubles that are more than a double can hold, though the mean and the spread are not. Plain arithmetic, so
// that tests run it on the host.
namespace ttap::cuda {

// What is not as large as this may be added up in any order, as often as a lane has values.
inline constexpr double kHuge = 0x1p900;
inline constexpr double kHugeRoot = 0x1p450;  // and the squares of what is not as large as this
// Others are summed in units of this; what is squared, in units of its root.
inline constexpr double kHugeUnit = 0x1p64;
inline constexpr double kHugeUnitRoot = 0x1p32;

TTAP_HD inline DoubleSum scaled(const DoubleSum& sum, double power_of_two) {
  return {sum.high * power_of_two, sum.rest * power_of_two};
}

// Sums below this are added plainly, some hundred at once.
inline constexpr double kOrdinary = 0x1p950;
// What that cannot reach, and would not be a double, is handed on in units, which a bit of its rest says.
inline constexpr double kLeastInUnits = 0x1p959;
inline constexpr uint64_t kInUnits = uint64_t{1} << 33;
TTAP_HD inline double with_mark(double rest, bool in_units) {
  uint64_t bits;
  memcpy(&bits, &rest, sizeof bits);
  bits = in_units ? bits | kInUnits : bits & ~kInUnits;
  memcpy(&rest, &bits, sizeof bits);
  return rest;
}
TTAP_HD inline bool is_in_units(const DoubleSum& sum) {
  uint64_t bits;
  memcpy(&bits, &sum.rest, sizeof bits);
  return !(fabs(sum.high) < kLeastInUnits) && (bits & kInUnits) != 0;
}

TTAP_HD inline DoubleSum in_units(const DoubleSum& sum) {
  return is_in_units(sum) ? DoubleSum{sum.high, with_mark(sum.rest, false)} : scaled(sum, 1 / kHugeUnit);
}
// To be handed on.
TTAP_HD inline DoubleSum out_of_units(const DoubleSum& sum) {
  const DoubleSum whole = exact_sum(sum.high, sum.rest);
  const bool stays = !(fabs(whole.high) < kLeastInUnits);
  const DoubleSum out = stays ? whole : scaled(whole, kHugeUnit);
  return {out.high, with_mark(out.rest, stays)};
}

// Of two, each in units or not.
TTAP_HD inline DoubleSum sum_of_huge(const DoubleSum& a, const DoubleSum& b) {
  if (fabs(a.high) < kOrdinary && fabs(b.high) < kOrdinary) return a + b;
  return out_of_units(in_units(a) + in_units(b));
}

// A value to take distances from: not one so large that they might be infinite. (Squares are beyond double then
// anyway.)
TTAP_HD inline double never_huge(double value) { return fabs(value) < kHuge ? value : 0; }

// Of some distances: what does not go to the plain sums, in units.
struct HugeBatch {
  double sum = 0;
  double squares = 0;

  template <bool MAY_BE_HUGE>
  TTAP_HD void add(double distance, double& plain_sum, double& plain_squares) {
    if (!MAY_BE_HUGE || fabs(distance) < kHugeRoot) {
      plain_sum += distance;
      plain_squares = fma(distance, distance, plain_squares);
      return;
    }
    if (fabs(distance) < kHuge)
      plain_sum += distance;
    else
      sum += distance * (1 / kHugeUnit);
    const double root = distance * (1 / kHugeUnitRoot);
    squares = fma(root, root, squares);
  }
};
// Those of a lane.
struct HugeSums {
  DoubleSum sum;
  DoubleSum squares;

  TTAP_HD void add(const HugeBatch& batch) {
    sum = sum + DoubleSum{batch.sum, 0};
    squares = squares + DoubleSum{batch.squares, 0};
  }
};

}  // namespace ttap::cuda
