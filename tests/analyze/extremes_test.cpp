#include "analyze/values/extremes.h"

#include <gtest/gtest.h>

#include <limits>

#include "not_finite.h"

namespace ttap {
namespace {

std::vector<uint64_t> elements(const std::vector<Located>& values) {
  std::vector<uint64_t> result;
  for (const Located& value : values) result.push_back(value.element);
  return result;
}

TEST(WorstElements, AreTheLargestMagnitudesAndOfEqualsTheFirst) {
  const std::vector<float> values = {1, -5, 2, 5, 0, 2};
  const int64_t shape[] = {6};
  const Extremes worst = worst_elements({values.data(), DType::kF32, shape, {}}, 3);
  EXPECT_EQ(elements(worst.largest), (std::vector<uint64_t>{1, 3, 2}));
  EXPECT_EQ(worst.largest[0].value, Number(-5.0));
  EXPECT_EQ(worst.nonfinite_count, 0u);
}

TEST(WorstElements, NonfiniteOnesAreCountedAndTheFirstFewNamed) {
  const std::vector<float> values = {1, kNan, kInf, -kInf, 3};
  const int64_t shape[] = {5};
  const Extremes worst = worst_elements({values.data(), DType::kF32, shape, {}}, 2);
  EXPECT_EQ(worst.nonfinite_count, 3u);
  EXPECT_EQ(elements(worst.nonfinite), (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(elements(worst.largest), (std::vector<uint64_t>{4, 0}));
}

TEST(WorstElements, LargeIntegersAreToldApart) {
  const int64_t min = std::numeric_limits<int64_t>::min();
  const int64_t max = std::numeric_limits<int64_t>::max();
  const std::vector<int64_t> values = {max - 1, max, min};  // all the same as double
  const int64_t shape[] = {3};
  const Extremes worst = worst_elements({values.data(), DType::kI64, shape, {}}, 3);
  EXPECT_EQ(elements(worst.largest), (std::vector<uint64_t>{2, 1, 0}));
  EXPECT_EQ(worst.largest[2].value, Number(max - 1));
}

TEST(WorstElements, NoneOnRequest) {
  const std::vector<float> values = {kNan, 1};
  const int64_t shape[] = {2};
  const Extremes worst = worst_elements({values.data(), DType::kF32, shape, {}}, 0);
  EXPECT_TRUE(worst.largest.empty());
  EXPECT_EQ(worst.nonfinite_count, 1u);
}

TEST(WorstElements, AreNumberedInLogicalOrderWhateverTheStrides) {
  const std::vector<float> storage = {1, 4, 2, 5, 3, 6};  // of [[1, 2, 3], [4, 5, 6]]
  const int64_t shape[] = {2, 3};
  const int64_t strides[] = {1, 2};
  const Extremes worst = worst_elements({storage.data(), DType::kF32, shape, strides}, 1);
  EXPECT_EQ(index_of(worst.largest[0].element, shape), (std::vector<int64_t>{1, 2}));
}

TEST(WorstElements, WorkInTensorsOfManyPieces) {
  std::vector<float> values(300'000, 1);
  values[299'999] = -7;
  values[150'000] = kNan;
  const int64_t shape[] = {300'000};
  const Extremes worst = worst_elements({values.data(), DType::kF32, shape, {}}, 1);
  EXPECT_EQ(worst.largest[0].element, 299'999u);
  EXPECT_EQ(worst.nonfinite[0].element, 150'000u);
}

TEST(FirstNonfinite, NamesElementAndPart) {
  const std::vector<float> values = {1, 2, 3, kInf};
  const int64_t shape[] = {2};
  const auto first = first_nonfinite({values.data(), DType::kC64, shape, {}});
  ASSERT_TRUE(first);
  EXPECT_EQ(first->element, 1u);
  EXPECT_EQ(first->part, 1);
}

TEST(FirstNonfinite, IsNothingInIntegersAndInCleanTensors) {
  const std::vector<int32_t> values = {-1, 0x7FC00000};
  const int64_t shape[] = {2};
  EXPECT_FALSE(first_nonfinite({values.data(), DType::kI32, shape, {}}));
  const std::vector<float> clean = {1, 2};
  EXPECT_FALSE(first_nonfinite({clean.data(), DType::kF32, shape, {}}));
}

TEST(CanBeNonfinite, HoldsForTheFormatsThatHaveNanOrInf) {
  EXPECT_TRUE(can_be_nonfinite(DType::kF8E4M3FN));
  EXPECT_TRUE(can_be_nonfinite(DType::kC64));
  EXPECT_FALSE(can_be_nonfinite(DType::kF4E2M1FNx2));
  EXPECT_FALSE(can_be_nonfinite(DType::kI64));
  EXPECT_FALSE(can_be_nonfinite(DType::kBool));
}

}  // namespace
}  // namespace ttap
