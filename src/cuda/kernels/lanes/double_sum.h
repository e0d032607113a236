#pragma once

#include <cmath>

#include "ttap/api.h"

// Sums in twice the precision of double, without a division or a branch. Plain arithmetic, so that tests run it on the
// host.
namespace ttap::cuda {

// high + rest. Only `high` is rounded as it is added to; what that loses is kept in `rest`.
struct DoubleSum {
  double high = 0;
  double rest = 0;
};

// A product that is not fused with what is added to it, where what rounding took off it is asked for.
TTAP_HD inline double rounded_product(double a, double b) {
#if defined(__CUDA_ARCH__)
  return __dmul_rn(a, b);
#else
  return a * b;  // the host fuses nothing by itself
#endif
}

TTAP_HD inline DoubleSum exact_sum(double a, double b) {
  const double sum = a + b;
  const double b_of_sum = sum - a;
  return {sum, (a - (sum - b_of_sum)) + (b - b_of_sum)};
}

TTAP_HD inline DoubleSum exact_product(double a, double b) {
  const double product = rounded_product(a, b);
  return {product, fma(a, b, -product)};
}

// The same whichever comes first.
TTAP_HD inline DoubleSum operator+(const DoubleSum& a, const DoubleSum& b) {
  const DoubleSum sum = exact_sum(a.high, b.high);
  return {sum.high, (a.rest + b.rest) + sum.rest};
}

TTAP_HD inline DoubleSum operator*(const DoubleSum& a, const DoubleSum& b) {
  const DoubleSum product = exact_product(a.high, b.high);
  return {product.high, product.rest + (rounded_product(a.high, b.rest) + rounded_product(a.rest, b.high))};
}

TTAP_HD inline DoubleSum operator-(const DoubleSum& a) { return {-a.high, -a.rest}; }

}  // namespace ttap::cuda
