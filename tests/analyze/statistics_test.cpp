#include "analyze/diff/judge/statistics.h"

#include <gtest/gtest.h>

#include <vector>

namespace ttap {
namespace {

// Two tensors of which only fingerprints were kept.
template <class T>
TensorDiff compared(DType dtype, const std::vector<T>& a, const std::vector<T>& b,
                    const ToleranceOptions& options = {}) {
  const std::vector<int64_t> shape{static_cast<int64_t>(a.size())};
  const auto record = [&](const std::vector<T>& values) {
    TensorRecord tensor;
    tensor.name = "x";
    tensor.dtype = dtype;
    tensor.shape = shape;
    tensor.has_fingerprint = true;
    tensor.fingerprint = fingerprint({values.data(), dtype, shape, {}});
    return tensor;
  };
  TensorDiff tensor;
  compare_statistics(Tolerances::create(options).value(), record(a), record(b),
                     coarser(record(a).dtype, record(b).dtype), tensor);
  return tensor;
}

TEST(Statistics, WhatDiffersByRoundingLooksLikeIt) {
  const TensorDiff tensor = compared<float>(DType::kF32, {1, 2, 3, 4}, {1, 2.0000002F, 3, 4});
  EXPECT_EQ(tensor.verdict, Verdict::kInconclusive);
  EXPECT_TRUE(tensor.like_rounding);
}

TEST(Statistics, SwappedValuesAndTurnedSignsDoNot) {
  for (const auto& other : {std::vector<float>{2, 1, 3, 4}, std::vector<float>{-1, 2, 3, 4}}) {
    const TensorDiff tensor = compared<float>(DType::kF32, {1, 2, 3, 4}, other, {.rtol = 1, .atol = 10});
    EXPECT_EQ(tensor.verdict, Verdict::kInconclusive);
    EXPECT_FALSE(tensor.like_rounding);
  }
}

TEST(Statistics, ALeastErrorBeyondTheRelativeBoundHasDiverged) {
  // Each value is close, and all are off to the same side.
  const std::vector<float> a(1000, 1.0F), b(1000, 1.0001F);
  EXPECT_EQ(compared<float>(DType::kF32, a, b).verdict, Verdict::kDiverged);
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
