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
};

// Of the values in a float, complex or packed dtype. Integers have none: asking is a bug.
UlpScale ulp_scale(DType dtype);

// The number of |x|, rounded to the format (to nearest, of two equally near to the even one); beyond the largest finite
// value it is one more than that one's. `x` is finite. The powers of two of e8m0 have a zero below them here.
inline uint64_t ulp_index(const UlpScale& scale, double x) {
  const double magnitude = std::fabs(x);
  if (scale.mantissa == 52) return std::bit_cast<uint64_t>(magnitude);
  uint64_t index;
  if (magnitude < std::ldexp(1.0, scale.min_exponent)) {
    index = static_cast<uint64_t>(std::rint(std::ldexp(magnitude, scale.mantissa - scale.min_exponent)));
  } else {
    const int exponent = std::ilogb(magnitude);
    index = (static_cast<uint64_t>(exponent - scale.min_exponent) << scale.mantissa) +
            static_cast<uint64_t>(std::rint(std::ldexp(magnitude, scale.mantissa - exponent)));
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
