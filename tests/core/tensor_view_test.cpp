#include "ttap/tensor_view.h"

#include <gtest/gtest.h>

#include <limits>

namespace ttap {
namespace {

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
const double kData[64] = {};

using Dims = std::vector<int64_t>;

TensorView view(const Dims& shape, const Dims& strides = {}, DType dtype = DType::kF32) {
  return {.data = kData, .dtype = dtype, .shape = shape, .strides = strides};
}

ErrorCode code_of(const Status& status) {
  EXPECT_FALSE(status.ok());
  return status.error().code;
}

TEST(CheckView, AcceptsWhatCanBeRead) {
  const Dims scalar, row{4}, matrix{2, 3}, strides{1, -2}, zeros{0, 0};
  EXPECT_TRUE(validate(view(scalar)).ok());
  EXPECT_TRUE(validate(view(row)).ok());
  EXPECT_TRUE(validate(view(matrix, strides)).ok());
  EXPECT_TRUE(validate(view(matrix, zeros)).ok());
}

TEST(CheckView, RefusesADTypeThatDoesNotExist) {
  EXPECT_EQ(code_of(validate(view({}, {}, static_cast<DType>(0)))), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of(validate(view({}, {}, static_cast<DType>(200)))), ErrorCode::kInvalidArgument);
}

TEST(CheckView, RefusesNegativeDimensions) {
  const Dims shape{2, -1}, hidden{0, -1};
  EXPECT_EQ(code_of(validate(view(shape))), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of(validate(view(hidden))), ErrorCode::kInvalidArgument);
}

TEST(CheckView, TakesSixtyFourDimensionsAndNoMore) {
  EXPECT_TRUE(validate(view(Dims(64, 1))).ok());
  EXPECT_EQ(code_of(validate(view(Dims(65, 1)))), ErrorCode::kTooLarge);
}

TEST(CheckView, RefusesShapesThatOverflow) {
  for (const Dims& shape :
       {Dims{kHuge}, Dims{kHuge / 4 + 1}, Dims{int64_t{1} << 32, int64_t{1} << 31}, Dims(64, 2), Dims{0, kHuge, kHuge}})
    EXPECT_EQ(code_of(validate(view(shape))), ErrorCode::kTooLarge);
  const Dims most{kHuge / 4};
  EXPECT_TRUE(validate(view(most)).ok());
  EXPECT_EQ(code_of(validate(view(most, {}, DType::kF64))), ErrorCode::kTooLarge);
}

TEST(CheckView, RefusesTheWrongNumberOfStrides) {
  const Dims shape{2, 3}, one{1}, three{1, 1, 1};
  EXPECT_EQ(code_of(validate(view(shape, one))), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of(validate(view(shape, three))), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of(validate(view({}, one))), ErrorCode::kInvalidArgument);
}

TEST(CheckView, RefusesStridesThatReachBeyondTheAddressSpace) {
  const Dims shape{2, 3};
  for (const Dims& strides : {Dims{kHuge, 1}, Dims{-kHuge - 1, 1}, Dims{1, kHuge / 4}, Dims{kHuge / 8, kHuge / 12},
                              Dims{-(kHuge / 8), -(kHuge / 12)}})
    EXPECT_EQ(code_of(validate(view(shape, strides))), ErrorCode::kTooLarge);
}

TEST(CheckView, IgnoresStridesThatNothingUses) {
  const Dims ones{1, 2}, wild{kHuge, 1}, empty{0, 5}, wilder{kHuge, -kHuge - 1};
  EXPECT_TRUE(validate(view(ones, wild)).ok());
  EXPECT_TRUE(validate(view(empty, wilder)).ok());
}

TEST(CheckView, RefusesNoDataUnlessThereIsNothingToRead) {
  const Dims shape{2}, empty{2, 0};
  TensorView nothing = view(shape);
  nothing.data = nullptr;
  EXPECT_EQ(code_of(validate(nothing)), ErrorCode::kInvalidArgument);
  nothing.shape = empty;
  EXPECT_TRUE(validate(nothing).ok());
}

TEST(TensorView, CountsElementsAndBytes) {
  const Dims shape{2, 3, 4}, empty{2, 0, 4};
  EXPECT_EQ(element_count(view(shape)), 24u);
  EXPECT_EQ(byte_count(view(shape, {}, DType::kBF16)), 48u);
  EXPECT_EQ(element_count(view({})), 1u);
  EXPECT_EQ(element_count(view(empty)), 0u);
}

TEST(TensorView, IsContiguousWhenItsElementsLieInCOrder) {
  struct Case {
    Dims shape, strides;
    bool contiguous;
  };
  const Case cases[] = {
      {{}, {}, true},
      {{2, 3}, {}, true},
      {{2, 3}, {3, 1}, true},
      {{2, 3}, {1, 2}, false},
      {{2, 3}, {4, 1}, false},
      {{2, 3}, {-3, 1}, false},
      {{2, 3}, {0, 1}, false},
      {{1, 3}, {99, 1}, true},  // a dimension of one is never stepped over
      {{2, 1, 3}, {3, -5, 1}, true},
      {{1, 1}, {7, 7}, true},
      {{0, 3}, {5, 9}, true},  // nothing to be out of order
      {{3}, {2}, false},
  };
  for (const auto& [shape, strides, contiguous] : cases)
    EXPECT_EQ(is_contiguous(view(shape, strides)), contiguous)
        << ::testing::PrintToString(shape) << ' ' << ::testing::PrintToString(strides);
}

TEST(TensorView, KnowsTheStridesOfCOrder) {
  EXPECT_EQ(contiguous_strides(Dims{}), Dims{});
  EXPECT_EQ(contiguous_strides(Dims{2, 3, 4}), (Dims{12, 4, 1}));
  EXPECT_EQ(contiguous_strides(Dims{2, 0, 4}), (Dims{4, 4, 1}));
}

}  // namespace
}  // namespace ttap
