#include "analyze/values/sample.h"

#include <gtest/gtest.h>

#include <numeric>

namespace ttap {
namespace {

TEST(Sample, ShowsTheEdgesOfTheLastTwoDimensions) {
  std::vector<float> values(2 * 10 * 20);
  std::iota(values.begin(), values.end(), 0.0F);
  const int64_t shape[] = {2, 10, 20};
  const Sample s = sample({values.data(), DType::kF32, shape, {}}, 2, 1);
  EXPECT_EQ(s.fixed, (std::vector<int64_t>{0}));
  EXPECT_EQ(s.rows, (std::vector<int64_t>{0, 1, 8, 9}));
  EXPECT_EQ(s.columns, (std::vector<int64_t>{0, 19}));
  ASSERT_EQ(s.values.size(), 8u);
  EXPECT_EQ(s.values[0], Number(0.0));
  EXPECT_EQ(s.values[7], Number(199.0));
}

TEST(Sample, ShowsShortDimensionsWhole) {
  const std::vector<uint8_t> values = {1, 2, 3, 4};
  const int64_t shape[] = {4};
  const Sample s = sample({values.data(), DType::kU8, shape, {}}, 3, 2);
  EXPECT_EQ(s.columns, (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(s.values[3], Number(uint64_t{4}));
}

TEST(Sample, OfAScalarIsItsValueAndOfAnEmptyTensorNothing) {
  const float value = 42;
  EXPECT_EQ(sample({&value, DType::kF32, {}, {}}, 3, 3).values, (std::vector<Number>{42.0}));
  const int64_t shape[] = {3, 0};
  EXPECT_TRUE(sample({nullptr, DType::kF32, shape, {}}, 3, 3).values.empty());
}

TEST(Sample, FollowsStrides) {
  const std::vector<float> storage = {1, 4, 2, 5, 3, 6};
  const int64_t shape[] = {2, 3};
  const int64_t strides[] = {1, 2};
  const Sample s = sample({storage.data(), DType::kF32, shape, strides}, 3, 3);
  EXPECT_EQ(s.values, (std::vector<Number>{1.0, 2.0, 3.0, 4.0, 5.0, 6.0}));
}

TEST(Select, GoesIntoTheFirstDimensions) {
  std::vector<float> values(2 * 3 * 4);
  std::iota(values.begin(), values.end(), 0.0F);
  const int64_t shape[] = {2, 3, 4};
  const int64_t strides[] = {12, 4, 1};
  const int64_t index[] = {1, -1};
  const auto row = select({values.data(), DType::kF32, shape, strides}, index);
  ASSERT_TRUE(row.ok());
  EXPECT_EQ(row->ndim(), 1u);
  EXPECT_EQ(sample(*row, 3, 3).values.front(), Number(20.0));
}

TEST(Select, RefusesWhatIsOutside) {
  const std::vector<float> values = {1, 2};
  const int64_t shape[] = {2};
  const int64_t strides[] = {1};
  const TensorView view{values.data(), DType::kF32, shape, strides};
  for (const std::vector<int64_t>& index : {std::vector<int64_t>{2}, {-3}, {0, 0}}) {
    const auto selected = select(view, index);
    ASSERT_FALSE(selected.ok());
    EXPECT_EQ(selected.error().code, ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace ttap
