#include "ttap/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "not_finite.h"

namespace ttap {
namespace {

TEST(IsClose, AppliesBothTolerancesAgainstTheExpectedValue) {
  EXPECT_TRUE(is_close(1.1, 1.0, {.rtol = 0.1 + 1e-12}));
  EXPECT_FALSE(is_close(1.0, 1.1, {.rtol = 0.09}));
  EXPECT_TRUE(is_close(0.5, 0.0, {.atol = 0.5}));
  EXPECT_FALSE(is_close(0.5, 0.0, {.rtol = 1e9}));
  EXPECT_TRUE(is_close(-100.0, -101.0, {.rtol = 0.01}));
}

TEST(IsClose, FiniteAgainstInfiniteIsAMismatchWhateverTheTolerance) {
  const Tolerance anything{.rtol = kInf, .atol = kInf};
  EXPECT_FALSE(is_close(1.0, kInf, anything));
  EXPECT_FALSE(is_close(kInf, 1.0, anything));
  EXPECT_FALSE(is_close(-kInf, kInf, anything));
  EXPECT_TRUE(is_close(kInf, kInf, {}));
  EXPECT_TRUE(is_close(-kInf, -kInf, {}));
}

TEST(IsClose, NanAgreesWithNanOnlyOnRequest) {
  EXPECT_FALSE(is_close(kNan, kNan, {.rtol = kInf, .atol = kInf}));
  EXPECT_TRUE(is_close(kNan, kNan, {.equal_nan = true}));
  EXPECT_FALSE(is_close(kNan, 0.0, {.atol = kInf, .equal_nan = true}));
  EXPECT_FALSE(is_close(0.0, kNan, {.atol = kInf, .equal_nan = true}));
}

TEST(IsClose, NegativeZeroAgreesWithZero) { EXPECT_TRUE(is_close(-0.0, 0.0, {})); }

TEST(IsClose, IntegersDoNotPassThroughDouble) {
  const int64_t big = (int64_t{1} << 53);
  EXPECT_FALSE(is_close(big + 1, big));  // equal once rounded to double
  EXPECT_FALSE(is_close(~uint64_t{0}, ~uint64_t{0} - 1));
  EXPECT_TRUE(is_close(big, big));
}

}  // namespace
}  // namespace ttap
