#pragma once

#include <cmath>

namespace ttap::test {

// Double-double arithmetic: the unevaluated sum of two doubles, some 104 bits on every CPU. (long double has 64 on
// x86-64 and 113 on ARM.) It holds as long as the products of doubles neither overflow nor underflow.
struct DoubleDouble {
  DoubleDouble(double high_part = 0, double low_part = 0) : high(high_part), low(low_part) {}

  double high;  // the value, rounded to double
  double low;   // what that rounding left out
};

// Knuth's two-sum: exactly a + b.
inline DoubleDouble two_sum(double a, double b) {
  const double sum = a + b;
  const double rounded_b = sum - a;
  return {sum, (a - (sum - rounded_b)) + (b - rounded_b)};
}

// Exactly a · b.
inline DoubleDouble two_product(double a, double b) { return {a * b, std::fma(a, b, -(a * b))}; }

inline DoubleDouble operator+(DoubleDouble a, DoubleDouble b) {
  const DoubleDouble high = two_sum(a.high, b.high);
  const DoubleDouble low = two_sum(a.low, b.low);
  const DoubleDouble sum = two_sum(high.high, high.low + low.high);
  return two_sum(sum.high, sum.low + low.low);
}
inline DoubleDouble operator-(DoubleDouble a, DoubleDouble b) { return a + DoubleDouble(-b.high, -b.low); }
inline DoubleDouble& operator+=(DoubleDouble& a, DoubleDouble b) { return a = a + b; }

inline DoubleDouble operator/(DoubleDouble a, double b) {
  const double quotient = a.high / b;
  return two_sum(quotient, (a - two_product(quotient, b)).high / b);
}

inline DoubleDouble square(DoubleDouble a) {
  const DoubleDouble product = two_product(a.high, a.high);
  return two_sum(product.high, product.low + 2 * a.high * a.low);
}

}  // namespace ttap::test
