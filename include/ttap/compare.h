#pragma once

#include <cstdint>

#include "ttap/api.h"

namespace ttap {

struct Tolerance {
  double rtol = 0;
  double atol = 0;
  bool equal_nan = false;  // NaN against NaN agrees
};

// The one definition of "close" in TensorTap, for CPU and GPU alike. `expected` is the reference.
//   finite:   |actual − expected| ≤ atol + rtol · |expected|, in double
//   infinite: agrees only with the same infinity, whatever the tolerance
//   NaN:      agrees with nothing, or with NaN when equal_nan
//   −0 and 0 agree
TTAP_HD inline bool is_close(double actual, double expected, const Tolerance& tolerance) {
  const bool actual_nan = actual != actual;
  const bool expected_nan = expected != expected;
  if (actual_nan || expected_nan) return actual_nan && expected_nan && tolerance.equal_nan;
  if (actual == expected) return true;
  // x − x is zero for a finite x and NaN for an infinite one.
  if (actual - actual != 0 || expected - expected != 0) return false;
  const double difference = actual < expected ? expected - actual : actual - expected;
  const double magnitude = expected < 0 ? -expected : expected;
  return difference <= tolerance.atol + tolerance.rtol * magnitude;
}

// Integers are compared exactly and never pass through double.
TTAP_HD inline bool is_close(int64_t actual, int64_t expected) { return actual == expected; }
TTAP_HD inline bool is_close(uint64_t actual, uint64_t expected) { return actual == expected; }

}  // namespace ttap
