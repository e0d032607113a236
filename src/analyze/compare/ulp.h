#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "ttap/dtype.h"

// The representable values of a binary float format, counted from zero: what a ULP distance is a difference of.
namespace ttap {

// A format with `mantissa` explicit bits whose smallest normal number is 2^`min_exponent` and whose largest finite
// value is number `largest`.
struct UlpScale {
  int mantissa = 52;
  int min_exponent = -1022;
  uint64_t largest = 0x7FEFFFFFFFFFFFFF;

  // What rounding a double to it takes, as numbers: `shift` mantissa bits go, `offset` is the number of the double's
  // exponent below the smallest normal one, `first_normal` is that one's bits.
  int shift() const { return 52 - mantissa; }
  uint64_t offset() const { return static_cast<uint64_t>(1022 + min_exponent) << mantissa; }
  uint64_t first_normal() const { return static_cast<uint64_t>(1023 + min_exponent) << 52; }
  // Added to a smaller double it rounds that to a multiple of the smallest value, which then stands in the last bits.
  double subnormal_round() const { return std::ldexp(1.0, 52 + min_exponent - mantissa); }
  // Without mantissa the last bit that stays is the implicit one: always odd.
  uint64_t always_odd() const { return mantissa == 0 ? 1 : 0; }
};

// Of the values in a float, complex or packed dtype. Integers have none: asking is a bug.
UlpScale ulp_scale(DType dtype);

// The number of |x|, rounded to the format (to nearest, of two equally near to the even one); beyond the largest finite
// value it is one more than that one's. `x` is finite. The powers of two of e8m0 have a zero below them here.
inline uint64_t ulp_index(const UlpScale& scale, double x) {
  const double magnitude = std::fabs(x);
  const auto bits = std::bit_cast<uint64_t>(magnitude);
  const int shift = scale.shift();
  if (shift == 0) return bits;
  uint64_t index;
  if (bits < scale.first_normal()) {
    const double round = scale.subnormal_round();
    index = std::bit_cast<uint64_t>(magnitude + round) - std::bit_cast<uint64_t>(round);
  } else {
    const uint64_t odd = (bits >> shift | scale.always_odd()) & 1;
    index = ((bits + (uint64_t{1} << (shift - 1)) - 1 + odd) >> shift) - scale.offset();
  }
  return index > scale.largest ? scale.largest + 1 : index;
}

// Steps between two finite values, both rounded to the format; −0 and 0 are the same step.
inline uint64_t ulp_distance(const UlpScale& scale, double a, double b) {
  const uint64_t ia = ulp_index(scale, a);
  const uint64_t ib = ulp_index(scale, b);
  if (std::signbit(a) != std::signbit(b)) return ia + ib;
  return ia < ib ? ib - ia : ia - ib;
}

}  // namespace ttap
