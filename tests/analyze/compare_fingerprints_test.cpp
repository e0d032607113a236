#include "analyze/diff/judge/compare_fingerprints.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "analyze/compare/tolerance.h"

namespace ttap {
namespace {

// Two tensors of which only fingerprints were kept.
template <class T>
TensorRecord record_of(DType dtype, const std::vector<T>& values, const std::vector<int64_t>& shape) {
  TensorRecord tensor;
  tensor.name = "x";
  tensor.dtype = dtype;
  tensor.shape = shape;
  tensor.has_fingerprint = true;
  tensor.fingerprint = fingerprint({values.data(), dtype, shape, {}});
  return tensor;
}
template <class T>
TensorDiff compared(DType dtype, const std::vector<T>& a, const std::vector<T>& b, const ToleranceOptions& options = {},
                    bool sketched = true) {
  const std::vector<int64_t> shape{static_cast<int64_t>(a.size())};
  TensorRecord of_a = record_of(dtype, a, shape), of_b = record_of(dtype, b, shape);
  of_a.fingerprint.has_sketch &= sketched;
  of_b.fingerprint.has_sketch &= sketched;
  TensorDiff tensor;
  compare_fingerprints(Tolerances::create(options).value(), of_a, of_b, dtype, tensor);
  return tensor;
}

TEST(CompareFingerprints, WhatDiffersByRoundingLooksLikeIt) {
  const TensorDiff tensor = compared<float>(DType::kF32, {1, 2, 3, 4}, {1, 2.0000002F, 3, 4}, {}, false);
  EXPECT_EQ(tensor.verdict, Verdict::kInconclusive);
  EXPECT_TRUE(tensor.like_rounding);
}

TEST(CompareFingerprints, SwappedValuesAndTurnedSignsDoNot) {
  for (const auto& other : {std::vector<float>{2, 1, 3, 4}, std::vector<float>{-1, 2, 3, 4}}) {
    const TensorDiff tensor = compared<float>(DType::kF32, {1, 2, 3, 4}, other, {.rtol = 1, .atol = 10}, false);
    EXPECT_EQ(tensor.verdict, Verdict::kInconclusive);
    EXPECT_FALSE(tensor.like_rounding);
  }
}

TEST(CompareFingerprints, BesideAMaskEqualSumsDoNotTellOfAnotherOrder) {
  const float lowest = std::numeric_limits<float>::lowest();
  const TensorDiff tensor = compared<float>(DType::kF32, {1, 2, 3, lowest}, {1, 2.0000002F, 3, lowest}, {}, false);
  EXPECT_EQ(tensor.verdict, Verdict::kInconclusive);
  EXPECT_TRUE(tensor.like_rounding);
}

TEST(CompareFingerprints, AMaskInTwoDtypesAgreesWhereAsMuchIsMasked) {
  const std::vector<int64_t> shape{4};
  const float lowest = std::numeric_limits<float>::lowest();
  const double infinite = std::numeric_limits<double>::infinity();
  const auto verdict = [&](const std::vector<float>& a, const std::vector<double>& b) {
    TensorDiff tensor;
    compare_fingerprints(Tolerances::create({}).value(), record_of(DType::kF32, a, shape),
                         record_of(DType::kF64, b, shape), DType::kF32, tensor);
    return tensor.verdict;
  };
  EXPECT_EQ(verdict({0, lowest, lowest, 0}, {0, -1e300, -1e300, 0}), Verdict::kWithin);
  EXPECT_EQ(verdict({0, lowest, lowest, 0}, {0, -infinite, -infinite, 0}), Verdict::kWithin);
  EXPECT_NE(verdict({0, lowest, lowest, 0}, {0, 0, -1e300, 0}), Verdict::kWithin);         // fewer
  EXPECT_NE(verdict({0.5, lowest, lowest, 0}, {0, -1e300, -1e300, 0}), Verdict::kWithin);  // no mask alone
}

TEST(CompareFingerprints, ALeastErrorBeyondTheRelativeBoundHasDiverged) {
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
  const std::vector<double> wide{1, 2, 3, 4 + 1e-7};
  const std::vector<int64_t> shape{4}, shorter{3};
  const TensorRecord a = record_of<float>(DType::kF32, {1, 2, 3, 4}, shape);
  TensorRecord b = record_of(DType::kF64, wide, shape);
  TensorDiff same_count;
  compare_fingerprints(Tolerances::create({}).value(), a, b, DType::kF32, same_count);
  EXPECT_EQ(same_count.verdict, Verdict::kWithin);
  EXPECT_EQ(same_count.evidence, Evidence::kSketch);
  EXPECT_NEAR(same_count.measures->rmse, 0.5e-7, 1e-12);

  b.fingerprint = fingerprint({wide.data(), b.dtype, shorter, {}});
  TensorDiff other_count;
  compare_fingerprints(Tolerances::create({}).value(), a, b, DType::kF32, other_count);
  EXPECT_NE(other_count.evidence, Evidence::kSketch);
}

TEST(CompareFingerprints, IntegersWithOtherBitsHaveDiverged) {
  const TensorDiff tensor = compared<int32_t>(DType::kI32, {1, 2, 3}, {2, 1, 3});
  EXPECT_EQ(tensor.verdict, Verdict::kDiverged);
  EXPECT_EQ(tensor.evidence, Evidence::kHash);
}

TEST(CompareFingerprints, APredicateIsNotAnsweredByStatistics) {
  const TensorDiff tensor = compared<float>(DType::kF32, {1, 2}, {1, 900}, {.rules = {"x=cos>=0.9"}});
  EXPECT_EQ(tensor.verdict, Verdict::kInconclusive);
  EXPECT_FALSE(tensor.like_rounding);
}

}  // namespace
}  // namespace ttap
