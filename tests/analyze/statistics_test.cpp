#include "analyze/diff/judge/statistics.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "analyze/compare/tolerance.h"

namespace ttap {
namespace {

// Two tensors of which only fingerprints were kept.
template <class T>
TensorDiff compared(DType dtype, const std::vector<T>& a, const std::vector<T>& b, const ToleranceOptions& options = {},
                    bool sketched = true) {
  const std::vector<int64_t> shape{static_cast<int64_t>(a.size())};
  const auto record = [&](const std::vector<T>& values) {
    TensorRecord tensor;
    tensor.name = "x";
    tensor.dtype = dtype;
    tensor.shape = shape;
    tensor.has_fingerprint = true;
    tensor.fingerprint = fingerprint({values.data(), dtype, shape, {}});
    tensor.fingerprint.has_sketch &= sketched;
    return tensor;
  };
  TensorDiff tensor;
  compare_statistics(Tolerances::create(options).value(), record(a), record(b),
                     coarser(record(a).dtype, record(b).dtype), tensor);
  return tensor;
}

TEST(Statistics, WhatDiffersByRoundingLooksLikeIt) {
  const TensorDiff tensor = compared<float>(DType::kF32, {1, 2, 3, 4}, {1, 2.0000002F, 3, 4}, {}, false);
  EXPECT_EQ(tensor.verdict, Verdict::kInconclusive);
  EXPECT_TRUE(tensor.like_rounding);
}

TEST(Statistics, SwappedValuesAndTurnedSignsDoNot) {
  for (const auto& other : {std::vector<float>{2, 1, 3, 4}, std::vector<float>{-1, 2, 3, 4}}) {
    const TensorDiff tensor = compared<float>(DType::kF32, {1, 2, 3, 4}, other, {.rtol = 1, .atol = 10}, false);
    EXPECT_EQ(tensor.verdict, Verdict::kInconclusive);
    EXPECT_FALSE(tensor.like_rounding);
  }
}

TEST(Statistics, BesideAMaskEqualSumsDoNotTellOfAnotherOrder) {
  const float lowest = std::numeric_limits<float>::lowest();
  const TensorDiff tensor = compared<float>(DType::kF32, {1, 2, 3, lowest}, {1, 2.0000002F, 3, lowest}, {}, false);
  EXPECT_EQ(tensor.verdict, Verdict::kInconclusive);
  EXPECT_TRUE(tensor.like_rounding);
}

TEST(Statistics, ALeastErrorBeyondTheRelativeBoundHasDiverged) {
  // Each value is close, and all are off to the same side.
  const std::vector<float> a(1000, 1.0F), b(1000, 1.0001F);
  EXPECT_EQ(compared<float>(DType::kF32, a, b).verdict, Verdict::kDiverged);
}

TEST(Sketches, RoundingIsWithinTolerance) {
  const TensorDiff tensor = compared<float>(DType::kF32, {1, 2, 3, 4}, {1, 2.0000002F, 3, 4});
  EXPECT_EQ(tensor.verdict, Verdict::kWithin);
  EXPECT_EQ(tensor.evidence, Evidence::kSketch);
  EXPECT_NEAR(tensor.measures->rmse, 2.4e-7 / 2, 1e-8);
}

TEST(Sketches, SwappedValuesAndTurnedSignsHaveDiverged) {
  for (const auto& other : {std::vector<float>{2, 1, 3, 4}, std::vector<float>{-1, 2, 3, 4}}) {
    const TensorDiff tensor = compared<float>(DType::kF32, {1, 2, 3, 4}, other);
    EXPECT_EQ(tensor.verdict, Verdict::kDiverged);
  }
}

TEST(Sketches, WhatTheSpreadLeavesOpenIsWithinToleranceAndSaysSo) {
  const double most = default_tolerance(DType::kF32).relative;
  const auto judged = [&](double relative) {
    std::vector<float> a(1000), b(1000);
    for (size_t i = 0; i < a.size(); ++i) {
      a[i] = i % 2 == 0 ? 1.0F : -1.0F;
      b[i] = a[i] * (i % 4 < 2 ? 1 + static_cast<float>(relative) : 1 - static_cast<float>(relative));
    }
    return compared<float>(DType::kF32, a, b);
  };
  EXPECT_EQ(judged(10 * most).verdict, Verdict::kDiverged);
  EXPECT_EQ(judged(most).verdict, Verdict::kWithin);
  EXPECT_NE(judged(most).note.find("give or take"), std::string::npos);
  EXPECT_EQ(judged(most / 10).verdict, Verdict::kWithin);
  EXPECT_EQ(judged(most / 10).note, "");
}

TEST(Sketches, OfOtherDtypesAreComparedWhereThereAreAsManyValues) {
  TensorRecord a, b;
  const std::vector<float> narrow{1, 2, 3, 4};
  const std::vector<double> wide{1, 2, 3, 4 + 1e-7};
  const std::vector<int64_t> shape{4}, shorter{3};
  a.name = b.name = "x";
  a.has_fingerprint = b.has_fingerprint = true;
  a.shape = b.shape = shape;
  a.dtype = DType::kF32, b.dtype = DType::kF64;
  a.fingerprint = fingerprint({narrow.data(), a.dtype, shape, {}});
  b.fingerprint = fingerprint({wide.data(), b.dtype, shape, {}});
  TensorDiff same_count;
  compare_statistics(Tolerances::create({}).value(), a, b, DType::kF32, same_count);
  EXPECT_EQ(same_count.verdict, Verdict::kWithin);
  EXPECT_EQ(same_count.evidence, Evidence::kSketch);
  EXPECT_NEAR(same_count.measures->rmse, 0.5e-7, 1e-12);

  b.fingerprint = fingerprint({wide.data(), b.dtype, shorter, {}});
  TensorDiff other_count;
  compare_statistics(Tolerances::create({}).value(), a, b, DType::kF32, other_count);
  EXPECT_NE(other_count.evidence, Evidence::kSketch);
}

TEST(Statistics, IntegersWithOtherBitsHaveDiverged) {
  const TensorDiff tensor = compared<int32_t>(DType::kI32, {1, 2, 3}, {2, 1, 3});
  EXPECT_EQ(tensor.verdict, Verdict::kDiverged);
  EXPECT_EQ(tensor.evidence, Evidence::kHash);
}

TEST(Statistics, APredicateIsNotAnsweredByStatistics) {
  const TensorDiff tensor = compared<float>(DType::kF32, {1, 2}, {1, 900}, {.rules = {"x=cos>=0.9"}});
  EXPECT_EQ(tensor.verdict, Verdict::kInconclusive);
  EXPECT_FALSE(tensor.like_rounding);
}

}  // namespace
}  // namespace ttap
