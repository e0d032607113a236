#include "core/compare_tensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "core/element_difference.h"

namespace ttap {
namespace {

template <class T>
Comparison compare(DType dtype, const std::vector<T>& actual, const std::vector<T>& expected,
                   const Tolerance& tolerance = {}) {
  const int64_t shape[] = {static_cast<int64_t>(actual.size() * sizeof(T) / size_of(dtype))};
  return compare_tensors({actual.data(), dtype, shape}, {expected.data(), dtype, shape}, tolerance);
}

TEST(CompareTensors, NamesTheFirstElementAndTheLargestDistance) {
  const Comparison found = compare<float>(DType::kF32, {1, 2, 3, 4}, {1, 2.5F, 3, 1}, {.atol = 0.25});
  EXPECT_EQ(found.differing, 2);
  EXPECT_EQ(found.first, 1);
  EXPECT_EQ(found.largest, 3);
  float actual = 0, expected = 0;
  std::memcpy(&actual, found.actual.data(), sizeof actual);
  std::memcpy(&expected, found.expected.data(), sizeof expected);
  EXPECT_EQ(actual, 2);
  EXPECT_EQ(expected, 2.5F);
}

TEST(CompareTensors, ReadsEachTensorInTheOrderOfItsIndices) {
  const std::vector<int32_t> rows{1, 2, 3, 4, 5, 6}, columns{1, 4, 2, 5, 3, 6};
  const int64_t shape[] = {2, 3}, strides[] = {1, 2};
  EXPECT_EQ(
      compare_tensors({columns.data(), DType::kI32, shape, strides}, {rows.data(), DType::kI32, shape}, {}).differing,
      0);
}

TEST(CompareTensors, ComparesMoreThanItReadsAtOnce) {
  std::vector<uint8_t> actual(10'001, 7), expected = actual;
  actual[9'999] = 9;
  const Comparison found = compare(DType::kU8, actual, expected);
  EXPECT_EQ(found.first, 9'999);
  EXPECT_EQ(found.differing, 1);
}

TEST(ElementDifference, IntegersAreExactWhateverTheTolerance) {
  const int64_t a = (int64_t{1} << 62) + 1, b = int64_t{1} << 62;  // the same as doubles
  const ElementDifference difference = difference_of(DType::kI64, &a, &b, {.rtol = 1, .atol = 9});
  EXPECT_FALSE(difference.close);
  EXPECT_EQ(difference.distance, 1);
}

TEST(ElementDifference, TheDistanceOfTheFarthestIntegersDoesNotOverflow) {
  const int64_t a = std::numeric_limits<int64_t>::min(), b = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(difference_of(DType::kI64, &a, &b, {}).distance, std::ldexp(1.0, 64));
}

TEST(ElementDifference, WhatIsNoNumberIsInfinitelyFarUnlessItAgrees) {
  const double nan = NAN, one = 1, infinity = INFINITY;
  EXPECT_EQ(difference_of(DType::kF64, &nan, &one, {}).distance, INFINITY);
  EXPECT_EQ(difference_of(DType::kF64, &infinity, &one, {.rtol = 1e300}).distance, INFINITY);
  EXPECT_FALSE(difference_of(DType::kF64, &infinity, &one, {.rtol = 1e300}).close);
  EXPECT_EQ(difference_of(DType::kF64, &nan, &nan, {.equal_nan = true}).distance, 0);
  EXPECT_EQ(difference_of(DType::kF64, &infinity, &infinity, {}).distance, 0);
}

TEST(ElementDifference, BothPartsCount) {
  const float a[] = {1, 2}, b[] = {1, 5};
  const ElementDifference difference = difference_of(DType::kC64, a, b, {.atol = 1});
  EXPECT_FALSE(difference.close);
  EXPECT_EQ(difference.distance, 3);
  const uint8_t low = 0x12, high = 0x32;  // the second value is in the high nibble
  EXPECT_FALSE(difference_of(DType::kF4E2M1FNx2, &low, &high, {}).close);
}

}  // namespace
}  // namespace ttap
