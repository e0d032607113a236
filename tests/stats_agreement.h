#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "ttap/fingerprint.h"

namespace ttap::test {

inline bool same(double a, double b) { return (std::isnan(a) && std::isnan(b)) || a == b; }

// What should be infinite or NaN has to be that.
inline bool near(double actual, double expected, double scale) {
  return std::isfinite(expected) ? std::fabs(actual - expected) <= 1e-12 * scale : same(actual, expected);
}

inline ::testing::AssertionResult agrees(const Stats& actual, const Stats& expected) {
  const auto differs = [&](const char* what, auto a, auto b) {
    char text[128];
    std::snprintf(text, sizeof text, "%s: %.17g, expected %.17g", what, static_cast<double>(a), static_cast<double>(b));
    return ::testing::AssertionFailure() << text;
  };
#define TTAP_SAME(field)                                                             \
  if (!same(static_cast<double>(actual.field), static_cast<double>(expected.field))) \
  return differs(#field, actual.field, expected.field)
  TTAP_SAME(count);
  TTAP_SAME(nan);
  TTAP_SAME(pos_inf);
  TTAP_SAME(neg_inf);
  TTAP_SAME(zeros);
  TTAP_SAME(subnormals);
  TTAP_SAME(min);
  TTAP_SAME(max);
  TTAP_SAME(max_abs);
  TTAP_SAME(min_abs_nonzero);
#undef TTAP_SAME
  // l1 may be infinite.
  const auto finite = static_cast<double>(expected.finite());
  const auto nonzero = finite - static_cast<double>(expected.zeros);
  const double mean_abs = finite == 0 ? 0 : std::fmin(expected.l1 / finite, expected.max_abs * (nonzero / finite));
  if (!near(actual.mean, expected.mean, mean_abs)) return differs("mean", actual.mean, expected.mean);
  if (!near(actual.std, expected.std, expected.std)) return differs("std", actual.std, expected.std);
  if (!near(actual.l1, expected.l1, expected.l1)) return differs("l1", actual.l1, expected.l1);
  if (!near(actual.l2, expected.l2, expected.l2)) return differs("l2", actual.l2, expected.l2);
  return ::testing::AssertionSuccess();
}

}  // namespace ttap::test
