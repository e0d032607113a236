#include "analyze/compare/measures.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <numeric>

#include "not_finite.h"

namespace ttap {
namespace {

template <class T>
struct Tensor {
  DType dtype;
  std::vector<T> values;
  std::vector<int64_t> shape = {static_cast<int64_t>(values.size())};

  TensorView view() const { return {values.data(), dtype, shape, {}}; }
};

template <class A, class B>
Measures compare(const Tensor<A>& a, const Tensor<B>& b, const Tolerance& tolerance = {}) {
  return measure(a.view(), b.view(), {.tolerance = tolerance});
}

Measures of_doubles(std::vector<double> a, std::vector<double> b, const Tolerance& tolerance = {}) {
  return compare<double, double>({DType::kF64, std::move(a)}, {DType::kF64, std::move(b)}, tolerance);
}

TEST(Measures, OfFloats) {
  const Measures m = of_doubles({1, -2, 4, 0}, {1, -3, 2, 1});
  EXPECT_EQ(m.count, 4u);
  EXPECT_EQ(m.finite, 4u);
  EXPECT_EQ(m.unequal, 3u);
  EXPECT_EQ(m.outside, 3u);
  EXPECT_DOUBLE_EQ(m.max_abs, 2);
  EXPECT_DOUBLE_EQ(m.mean_abs, 1);
  EXPECT_DOUBLE_EQ(m.max_rel, 0.5);  // where a is not 0
  EXPECT_DOUBLE_EQ(m.rmse, std::sqrt(6.0 / 4));
  EXPECT_DOUBLE_EQ(m.rms_a, std::sqrt(21.0 / 4));
  EXPECT_DOUBLE_EQ(m.rms_b, std::sqrt(15.0 / 4));
  EXPECT_DOUBLE_EQ(m.cosine, 15 / std::sqrt(21.0 * 15));
  EXPECT_DOUBLE_EQ(m.sqnr_db, 10 * std::log10(21.0 / 6));
  ASSERT_TRUE(m.worst);
  EXPECT_EQ(m.worst->element, 2u);
  EXPECT_EQ(m.worst->a, Number(4.0));
  EXPECT_EQ(m.worst->b, Number(2.0));
}

TEST(Measures, TheToleranceGrowsWithTheReference) {
  const Tolerance tolerance{.rtol = 0.1, .atol = 0.01};
  EXPECT_EQ(of_doubles({10, 0, 0}, {11, 0.01, 0.011}, tolerance).outside, 1u);
  EXPECT_EQ(of_doubles({10}, {11.2}, tolerance).outside, 1u);
  EXPECT_EQ(of_doubles({11.2}, {10}, tolerance).outside, 1u);  // 1.2 against 1.13
  EXPECT_EQ(of_doubles({12}, {10.9}, tolerance).outside, 0u);
}

TEST(Measures, EqualTensorsHaveNoWorstPair) {
  const Measures m = of_doubles({1, 2, kNan, -kInf}, {1, 2, kNan, -kInf}, {.equal_nan = true});
  EXPECT_EQ(m.unequal, 0u);
  EXPECT_EQ(m.outside, 0u);
  EXPECT_EQ(m.max_abs, 0);
  EXPECT_EQ(m.cosine, 1);
  EXPECT_EQ(m.sqnr_db, kInf);
  EXPECT_EQ(m.max_ulp, 0u);
  EXPECT_EQ(m.p99_ulp, 0u);
  EXPECT_FALSE(m.worst);
}

TEST(Measures, NegativeZeroEqualsZero) {
  const Measures m = of_doubles({0.0, -0.0}, {-0.0, 0.0});
  EXPECT_EQ(m.unequal, 0u);
  EXPECT_EQ(m.outside, 0u);
  EXPECT_EQ(m.max_ulp, 0u);
  EXPECT_EQ(m.cosine, 1);
  EXPECT_TRUE(std::isnan(m.max_rel));
  EXPECT_FALSE(m.worst);
}

TEST(Measures, NanMatchesNanOnlyOnRequest) {
  const Measures strict = of_doubles({kNan, kNan, 1}, {kNan, 1, kNan}, {.rtol = kInf});
  EXPECT_EQ(strict.nan_mismatches, 3u);
  EXPECT_EQ(strict.unequal, 2u);
  EXPECT_EQ(strict.outside, 3u);
  EXPECT_EQ(of_doubles({kNan, kNan, 1}, {kNan, 1, kNan}, {.equal_nan = true}).nan_mismatches, 2u);
}

TEST(Measures, InfinityMatchesOnlyItself) {
  const Measures m = of_doubles({kInf, -kInf, kInf, 1, kNan}, {kInf, kInf, 1, kInf, kInf}, {.rtol = 1e9, .atol = 1e9});
  EXPECT_EQ(m.inf_mismatches, 3u);
  EXPECT_EQ(m.nan_mismatches, 1u);
  EXPECT_EQ(m.outside, 4u);
  EXPECT_EQ(m.unequal, 4u);
  EXPECT_EQ(m.finite, 0u);
  EXPECT_TRUE(std::isnan(m.max_abs));
  EXPECT_FALSE(m.max_ulp);
}

TEST(Measures, AMismatchIsWorseThanAnyError) {
  const Measures m = of_doubles({1, 1, 1, kNan}, {1e300, kInf, 2, 0});
  ASSERT_TRUE(m.worst);
  EXPECT_EQ(m.worst->element, 1u);
  EXPECT_EQ(m.worst->b, Number(kInf));
  EXPECT_EQ(m.max_abs, 1e300);  // over finite pairs
}

TEST(Measures, OfEqualErrorsTheFirstIsTheWorst) {
  EXPECT_EQ(of_doubles({0, 0, 5, 0}, {0, 3, 8, 3}).worst->element, 1u);
}

TEST(Measures, CosineOfZeroTensors) {
  EXPECT_EQ(of_doubles({0, 0}, {0, 0}).cosine, 1);
  EXPECT_EQ(of_doubles({0, 0}, {1, 0}).cosine, 0);
  EXPECT_EQ(of_doubles({0, 1}, {0, 0}).cosine, 0);
  EXPECT_EQ(of_doubles({0, 0}, {1, 0}).sqnr_db, -kInf);
}

TEST(Measures, AnEmptyTensorHasNothingButCounts) {
  const Tensor<float> empty{DType::kF32, {}, {3, 0, 2}};
  const Measures m = compare(empty, empty);
  EXPECT_EQ(m.count, 0u);
  EXPECT_TRUE(std::isnan(m.max_abs));
  EXPECT_TRUE(std::isnan(m.cosine));
  EXPECT_FALSE(m.max_ulp);
  EXPECT_FALSE(m.worst);
  ASSERT_EQ(m.axes.size(), 3u);
  EXPECT_EQ(m.axes[0].max_abs, (std::vector<double>{0, 0, 0}));
  EXPECT_TRUE(m.axes[1].max_abs.empty());
}

TEST(Measures, AScalarHasNoAxes) {
  const Tensor<float> a{DType::kF32, {2}, {}};
  const Tensor<float> b{DType::kF32, {3}, {}};
  const Measures m = compare(a, b);
  EXPECT_EQ(m.count, 1u);
  EXPECT_EQ(m.max_abs, 1);
  EXPECT_TRUE(m.axes.empty());
}

TEST(Measures, IntegersBeyondTheDoublesAreExact) {
  const int64_t big = (int64_t{1} << 60) + 1;
  const Measures m = compare<int64_t, int64_t>({DType::kI64, {big, big, 5}}, {DType::kI64, {big - 1, big, 5}},
                                               {.rtol = 1, .atol = 1e9});
  EXPECT_EQ(m.unequal, 1u);
  EXPECT_EQ(m.outside, 1u);  // no tolerance for integers
  EXPECT_EQ(m.max_abs, 1);
  EXPECT_EQ(m.worst->a, Number(big));
  EXPECT_EQ(m.worst->b, Number(big - 1));
  EXPECT_FALSE(m.max_ulp);
}

TEST(Measures, TheDistanceOfTheFarthestIntegersIsExact) {
  const int64_t low = std::numeric_limits<int64_t>::min();
  const int64_t high = std::numeric_limits<int64_t>::max();
  EXPECT_EQ((compare<int64_t, int64_t>({DType::kI64, {low}}, {DType::kI64, {high}}).max_abs), 0x1p64);
  const uint64_t top = std::numeric_limits<uint64_t>::max();
  EXPECT_EQ((compare<uint64_t, uint64_t>({DType::kU64, {top}}, {DType::kU64, {top - 3}}).max_abs), 3);
  EXPECT_EQ((compare<int64_t, uint64_t>({DType::kI64, {-1}}, {DType::kU64, {top}}).max_abs), 0x1p64);
  EXPECT_EQ((compare<int64_t, uint64_t>({DType::kI64, {low}}, {DType::kU64, {top}}).max_abs), 0x1.8p64);
  EXPECT_EQ((compare<int64_t, uint64_t>({DType::kI64, {high}}, {DType::kU64, {uint64_t{1} << 63}}).max_abs), 1);
}

TEST(Measures, AnIntegerAgainstAFloatIsExact) {
  const int64_t big = (int64_t{1} << 53) + 1;
  const Measures m = compare<int64_t, double>({DType::kI64, {big, 7}}, {DType::kF64, {0x1p53, 7}});
  EXPECT_EQ(m.unequal, 1u);
  EXPECT_EQ(m.outside, 1u);
  EXPECT_EQ(m.max_abs, 1);
  EXPECT_EQ((compare<int32_t, float>({DType::kI32, {16777217}}, {DType::kF32, {16777216}}).max_abs), 1);
  EXPECT_EQ((compare<uint64_t, float>({DType::kU64, {3}}, {DType::kF32, {NAN}}).nan_mismatches), 1u);
  EXPECT_EQ((compare<uint64_t, float>({DType::kU64, {3}}, {DType::kF32, {INFINITY}}).inf_mismatches), 1u);
}

TEST(Measures, ABoolIsZeroOrOne) {
  EXPECT_EQ((compare<uint8_t, uint8_t>({DType::kBool, {0, 1, 2}}, {DType::kBool, {0, 1, 1}}).unequal), 0u);
  EXPECT_EQ((compare<uint8_t, float>({DType::kBool, {0, 1}}, {DType::kF32, {0, 0.5}}).max_abs), 0.5);
}

TEST(Measures, UlpsAreOfTheCoarserDType) {
  const uint16_t one_bf16 = 0x3F80;
  const Measures m = compare<uint16_t, float>({DType::kBF16, {one_bf16, one_bf16, one_bf16}},
                                              {DType::kF32, {1.0F, 1.001F, 1.0F + 3.0F / 128}});
  EXPECT_EQ(m.max_ulp, 3u);
  EXPECT_EQ(m.unequal, 2u);
}

TEST(Measures, TheNinetyNinthPercentileIsTheNearestRank) {
  // Distances 1 … 200: 198 of them do not exceed 198.
  std::vector<double> a(200, 1.0), b(200);
  for (size_t i = 0; i < b.size(); ++i) b[i] = std::bit_cast<double>(std::bit_cast<uint64_t>(1.0) + 200 - i);
  const Measures m = of_doubles(a, b);
  EXPECT_EQ(m.max_ulp, 200u);
  EXPECT_EQ(m.p99_ulp, 198u);
}

TEST(Measures, PercentileLeavesOutWhatIsNotFinite) {
  std::vector<double> a(1000, 1.0), b(1000, std::nextafter(1.0, 2.0));
  for (size_t i = 0; i < 990; ++i) a[i] = b[i] = kInf;
  EXPECT_EQ(of_doubles(a, b).p99_ulp, 1u);
}

TEST(Measures, AComplexElementIsTwoValues) {
  using Pair = std::array<float, 2>;
  const Measures m = compare<Pair, Pair>({DType::kC64, {{1, 2}, {3, 4}}}, {DType::kC64, {{1, 2}, {3, 7}}});
  EXPECT_EQ(m.count, 4u);
  EXPECT_EQ(m.worst->element, 1u);
  EXPECT_EQ(m.worst->part, 1);
  ASSERT_EQ(m.axes.size(), 1u);
  EXPECT_EQ(m.axes[0].max_abs, (std::vector<double>{0, 3}));
  EXPECT_EQ(m.axes[0].mean_sq, (std::vector<double>{0, 4.5}));
}

TEST(Measures, ARealAgainstAComplexHasNoImaginaryPart) {
  using Pair = std::array<float, 2>;
  const Measures m = compare<float, Pair>({DType::kF32, {1, 3}}, {DType::kC64, {{1, 0}, {3, 2}}});
  EXPECT_EQ(m.count, 4u);
  EXPECT_EQ(m.max_abs, 2);
  EXPECT_EQ(m.worst->part, 1);
}

TEST(Measures, EveryAxisHasItsErrors) {
  Tensor<float> a{DType::kF32, std::vector<float>(24), {2, 3, 4}};
  Tensor<float> b = a;
  b.values[1 * 12 + 2 * 4 + 3] = 2;
  b.values[0 * 12 + 2 * 4 + 1] = NAN;
  const Measures m = compare(a, b);
  ASSERT_EQ(m.axes.size(), 3u);
  EXPECT_EQ(m.axes[0].max_abs, (std::vector<double>{0, 2}));
  EXPECT_EQ(m.axes[1].max_abs, (std::vector<double>{0, 0, 2}));
  EXPECT_EQ(m.axes[2].max_abs, (std::vector<double>{0, 0, 0, 2}));
  EXPECT_EQ(m.axes[0].outside, (std::vector<uint64_t>{1, 1}));
  EXPECT_EQ(m.axes[1].outside, (std::vector<uint64_t>{0, 0, 2}));
  EXPECT_EQ(m.axes[2].outside, (std::vector<uint64_t>{0, 1, 0, 1}));
  EXPECT_EQ(m.axes[0].mean_sq, (std::vector<double>{0, 4.0 / 12}));
  EXPECT_EQ(m.axes[1].mean_sq, (std::vector<double>{0, 0, 4.0 / 7}));  // the NaN does not count
  EXPECT_EQ(m.axes[2].mean_sq, (std::vector<double>{0, 0, 0, 4.0 / 6}));
}

TEST(Measures, ALongAxisIsSummedUpInGroups) {
  Tensor<float> a{DType::kF32, std::vector<float>(10000)};
  Tensor<float> b = a;
  b.values[9999] = 1;
  const Measures m = compare(a, b);
  EXPECT_EQ(m.axes[0].width, 3u);
  EXPECT_EQ(m.axes[0].max_abs.size(), 3334u);
  EXPECT_EQ(m.axes[0].max_abs.back(), 1);
  EXPECT_EQ(m.axes[0].mean_sq.back(), 1);  // the last group has one element
}

TEST(Measures, AxesAreLeftOutWhenNotWanted) {
  const Tensor<float> a{DType::kF32, {1, 2}};
  EXPECT_TRUE(measure(a.view(), a.view(), {.axes = false}).axes.empty());
}

TEST(Measures, StridesDoNotMatter) {
  const std::vector<float> storage = {1, 4, 2, 5, 3, 6};  // columns of [[1, 2, 3], [4, 5, 6]]
  const int64_t shape[] = {2, 3};
  const int64_t strides[] = {1, 2};
  const Tensor<float> b{DType::kF32, {1, 2, 3, 4, 5, 8}, {2, 3}};
  const Measures m = measure({storage.data(), DType::kF32, shape, strides}, b.view());
  EXPECT_EQ(m.unequal, 1u);
  EXPECT_EQ(m.worst->element, 5u);
  EXPECT_EQ(m.axes[1].max_abs, (std::vector<double>{0, 0, 2}));
}

}  // namespace
}  // namespace ttap
