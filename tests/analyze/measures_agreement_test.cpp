// The fast measures against the plain ones, which are their definitions written down.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "analyze/compare/measures.h"
#include "plain_measures.h"
#include "sample_tensors.h"

namespace ttap {
namespace {

// Relative to `expected`, or to `unit` where that is larger: a logarithm or a cosine near 0 has no more digits.
void expect_near(double actual, double expected, const std::string& what, double unit = 0) {
  if (std::isnan(expected) || std::isinf(expected)) {
    EXPECT_TRUE(std::isnan(expected) ? std::isnan(actual) : actual == expected)
        << what << ": " << actual << " is not " << expected;
  } else {
    EXPECT_NEAR(actual, expected, 1e-9 * std::max(unit, std::fabs(expected))) << what;
  }
}

void expect_same_number(const Number& actual, const Number& expected) {
  EXPECT_EQ(actual.index(), expected.index());
  const double x = to_double(actual), y = to_double(expected);
  EXPECT_TRUE(actual == expected || (std::isnan(x) && std::isnan(y))) << x << " is not " << y;
}

void expect_agreement(const TensorView& a, const TensorView& b, const MeasureOptions& options) {
  const Measures expected = test::plain_measures(a, b, options);
  const Measures actual = measure(a, b, options);
  EXPECT_EQ(actual.count, expected.count);
  EXPECT_EQ(actual.finite, expected.finite);
  EXPECT_EQ(actual.unequal, expected.unequal);
  EXPECT_EQ(actual.outside, expected.outside);
  EXPECT_EQ(actual.nan_mismatches, expected.nan_mismatches);
  EXPECT_EQ(actual.inf_mismatches, expected.inf_mismatches);
  expect_near(actual.max_abs, expected.max_abs, "max_abs");
  expect_near(actual.mean_abs, expected.mean_abs, "mean_abs");
  expect_near(actual.max_rel, expected.max_rel, "max_rel");
  expect_near(actual.rmse, expected.rmse, "rmse");
  expect_near(actual.cosine, expected.cosine, "cosine", 1e-3);
  expect_near(actual.sqnr_db, expected.sqnr_db, "sqnr_db", 1e-3);
  expect_near(actual.rms_a, expected.rms_a, "rms_a");
  expect_near(actual.rms_b, expected.rms_b, "rms_b");
  EXPECT_EQ(actual.max_ulp, expected.max_ulp);
  EXPECT_EQ(actual.p99_ulp, expected.p99_ulp);
  ASSERT_EQ(actual.worst.has_value(), expected.worst.has_value());
  if (actual.worst) {
    EXPECT_EQ(actual.worst->element, expected.worst->element);
    EXPECT_EQ(actual.worst->part, expected.worst->part);
    expect_same_number(actual.worst->a, expected.worst->a);
    expect_same_number(actual.worst->b, expected.worst->b);
  }
  ASSERT_EQ(actual.axes.size(), expected.axes.size());
  for (size_t i = 0; i < actual.axes.size(); ++i) {
    const AxisError& x = actual.axes[i];
    const AxisError& y = expected.axes[i];
    EXPECT_EQ(x.axis, y.axis);
    EXPECT_EQ(x.width, y.width);
    EXPECT_EQ(x.max_abs, y.max_abs) << "axis " << i;
    EXPECT_EQ(x.outside, y.outside) << "axis " << i;
    ASSERT_EQ(x.mean_sq.size(), y.mean_sq.size());
    for (size_t entry = 0; entry < x.mean_sq.size(); ++entry)
      expect_near(x.mean_sq[entry], y.mean_sq[entry], "mean_sq of axis " + std::to_string(i));
  }
}

// Random floats, and others near them: some equal, some a little off, now and then something special.
std::vector<float> floats(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

std::vector<float> near(std::vector<float> values, uint32_t seed, float scale = 1e-4F, bool special = true) {
  constexpr float kSpecial[] = {NAN, INFINITY, -INFINITY, 0.0F, -0.0F, 3e38F, 1e-45F};
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  for (float& value : values) {
    const uint32_t dice = random() % 4096;
    if (dice < 2000)
      value += scale * normal(random);
    else if (special && dice < 2000 + std::size(kSpecial))
      value = kSpecial[dice - 2000];
  }
  return values;
}

TEST(MeasuresAgreement, ForEveryPairOfDTypes) {
  const std::vector<int64_t> shape = {3, 4, 13};
  for (DType a : kAllDTypes) {
    for (DType b : kAllDTypes) {
      SCOPED_TRACE(std::string(dtype_name(a)) + " against " + std::string(dtype_name(b)));
      const auto bytes_a = test::sample_bytes(a, 156, 1);
      auto bytes_b = test::sample_bytes(b, 156, a == b ? 1 : 2);
      if (a == b)
        for (size_t i = 0; i < bytes_b.size(); i += 7) bytes_b[i] ^= std::byte{1};
      for (const bool equal_nan : {false, true})
        expect_agreement({bytes_a.data(), a, shape, {}}, {bytes_b.data(), b, shape, {}},
                         {.tolerance = {.rtol = 0.5, .atol = 1, .equal_nan = equal_nan}});
    }
  }
}

TEST(MeasuresAgreement, ForEveryLayout) {
  for (const test::SampleLayout& layout : test::sample_layouts()) {
    for (DType dtype : {DType::kF32, DType::kBF16, DType::kC128, DType::kF4E2M1FNx2, DType::kI64}) {
      const test::SampleTensor a = test::sample_tensor(dtype, layout);
      test::SampleTensor b = a;
      for (size_t i = 0; i < b.storage.size(); i += 5) b.storage[i] ^= std::byte{1};
      SCOPED_TRACE(a.name);
      expect_agreement(a.view(), b.view(), {});
      const auto packed = test::logical_bytes(b.view());
      expect_agreement(a.view(), {packed.data(), dtype, b.shape, {}}, {});
    }
  }
}

TEST(MeasuresAgreement, ForShapesOfAllKinds) {
  const std::vector<std::vector<int64_t>> shapes = {{1},
                                                    {1023},
                                                    {1025},
                                                    {16384},
                                                    {16385},
                                                    {40'000},
                                                    {300'000},
                                                    {700, 64},
                                                    {4096, 9},
                                                    {3, 5000, 8},
                                                    {20'000, 3},
                                                    {30'000, 1, 2, 1, 3},
                                                    {2, 9000, 1},
                                                    {7, 20'000},
                                                    {30, 4097},
                                                    {1, 1, 1},
                                                    {6, 6, 6, 6, 6},
                                                    {50, 33, 65},
                                                    {2, 2, 17'000},
                                                    {5000, 40},
                                                    {2, 1, 4096, 5, 1}};
  for (const auto& shape : shapes) {
    size_t count = 1;
    std::string text;
    for (const int64_t length : shape) {
      count *= static_cast<size_t>(length);
      text += std::to_string(length) + " ";
    }
    SCOPED_TRACE(text);
    const auto a = floats(count, 1);
    const auto b = near(a, 2);
    expect_agreement({a.data(), DType::kF32, shape, {}}, {b.data(), DType::kF32, shape, {}},
                     {.tolerance = {.rtol = 1e-4, .atol = 1e-5}});
    expect_agreement({a.data(), DType::kF32, shape, {}}, {b.data(), DType::kF32, shape, {}}, {.axes = false});
  }
}

TEST(MeasuresAgreement, ForComplexElementsInTinyRows) {
  const std::vector<int64_t> shape = {9000, 3};
  const auto a = floats(54'000, 1);
  const auto b = near(a, 2);
  expect_agreement({a.data(), DType::kC64, shape, {}}, {b.data(), DType::kC64, shape, {}}, {});
}

// Large enough for a sample; the percentile lies where the sample says, or not at all.
TEST(MeasuresAgreement, ForPercentilesFarOut) {
  const std::vector<int64_t> shape = {400'000};
  const auto a = floats(400'000, 1);
  const auto check = [&](const std::vector<float>& b) {
    expect_agreement({a.data(), DType::kF32, shape, {}}, {b.data(), DType::kF32, shape, {}}, {.axes = false});
  };
  for (const float scale : {1e-8F, 1e-6F, 1e-3F, 10.0F}) check(near(a, 2, scale));
  // Nearly all the same.
  std::vector<float> b = a;
  for (size_t i = 0; i < b.size(); i += 90) b[i] *= 3;
  check(b);
  for (size_t i = 0; i < b.size(); i += 80) b[i] *= 3;
  check(b);
  // In runs that a regular sample sees too much or too little of.
  b = a;
  for (size_t i = 0; i < b.size(); ++i)
    if (i % 781 < 32) b[i] *= -2;
  check(b);
  b = a;
  for (size_t i = 0; i < b.size(); ++i)
    if (i % 781 >= 32) b[i] *= -2;
  check(b);
  std::vector<double> wide_a(a.begin(), a.end()), wide_b(b.begin(), b.end());
  expect_agreement({wide_a.data(), DType::kF64, shape, {}}, {wide_b.data(), DType::kF64, shape, {}}, {.axes = false});
}

TEST(MeasuresAgreement, ThreadsDoNotChangeABit) {
  const std::vector<int64_t> shape = {1000, 7001};
  const auto a = floats(7'001'000, 1);
  const auto b = near(a, 2);
  const auto with = [&](unsigned threads) {
    return measure({a.data(), DType::kF32, shape, {}}, {b.data(), DType::kF32, shape, {}},
                   {.tolerance = {.rtol = 1e-5}, .threads = threads});
  };
  const Measures one = with(1);
  for (const unsigned threads : {2U, 3U, 9U, 0U}) {
    const Measures many = with(threads);
    EXPECT_EQ(many.unequal, one.unequal);
    EXPECT_EQ(many.outside, one.outside);
    EXPECT_EQ(many.mean_abs, one.mean_abs);
    EXPECT_EQ(many.max_rel, one.max_rel);
    EXPECT_EQ(many.rmse, one.rmse);
    EXPECT_EQ(many.cosine, one.cosine);
    EXPECT_EQ(many.sqnr_db, one.sqnr_db);
    EXPECT_EQ(many.p99_ulp, one.p99_ulp);
    EXPECT_EQ(many.max_ulp, one.max_ulp);
    EXPECT_EQ(many.worst->element, one.worst->element);
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(many.axes[i].mean_sq, one.axes[i].mean_sq);
      EXPECT_EQ(many.axes[i].max_abs, one.axes[i].max_abs);
      EXPECT_EQ(many.axes[i].outside, one.axes[i].outside);
    }
  }
}

}  // namespace
}  // namespace ttap
