#include "core/logical_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "strided_tensor.h"

namespace ttap {
namespace {

using ::ttap::testing::StridedTensor;

// Everything at once, then every range from every start of a small tensor (some of a large one).
void expect_logical_order(const StridedTensor& tensor) {
  const std::vector<std::byte> expected = tensor.packed();
  ASSERT_TRUE(validate(tensor.view()).ok());
  const LogicalCopy copy(tensor.view());
  ASSERT_EQ(copy.elements() * copy.element_size(), expected.size());
  std::vector<std::byte> all(expected.size());
  copy.copy(0, copy.elements(), all.data());
  ASSERT_EQ(all, expected);

  const uint64_t step = 1 + copy.elements() / 30;
  for (uint64_t first = 0; first <= copy.elements(); first += step)
    for (uint64_t count = 0; first + count <= copy.elements(); count += step) {
      std::vector<std::byte> part(count * copy.element_size() + 1, std::byte{0xA5});
      copy.copy(first, count, part.data());
      ASSERT_TRUE(std::equal(part.begin(), part.end() - 1, expected.begin() + first * copy.element_size()))
          << first << '+' << count;
      ASSERT_EQ(part.back(), std::byte{0xA5}) << "wrote past the end";
    }
}

TEST(LogicalCopy, ReadsEveryLayout) {
  struct Layout {
    const char* name;
    std::vector<int64_t> shape, strides;
  };
  const Layout layouts[] = {
      {"contiguous", {3, 4}, {4, 1}},
      {"transposed", {4, 3}, {1, 4}},
      {"every second row", {3, 4}, {8, 1}},
      {"every second column", {3, 4}, {8, 2}},
      {"reversed", {7}, {-1}},
      {"both reversed", {3, 4}, {-4, -1}},
      {"rows reversed", {3, 4}, {-4, 1}},
      {"columns reversed", {3, 4}, {4, -1}},
      {"expanded row", {5, 4}, {0, 1}},
      {"expanded column", {5, 4}, {1, 0}},
      {"one value everywhere", {5, 4}, {0, 0}},
      {"overlapping windows", {6, 3}, {1, 1}},
      {"channels last", {2, 3, 4, 5}, {60, 1, 15, 3}},
      {"five dimensions, permuted", {2, 3, 2, 3, 2}, {1, 12, 4, 24, 2}},
      {"dimensions of one with wild strides", {1, 3, 1, 4, 1}, {999, 1, -77, 3, 0}},
      {"a slice of the middle", {2, 2, 3}, {24, 6, 1}},
  };
  for (const auto& layout : layouts)
    for (DType dtype : {DType::kU8, DType::kBF16, DType::kF32, DType::kF64, DType::kC128}) {
      SCOPED_TRACE(std::string(layout.name) + ", " + std::string(dtype_name(dtype)));
      expect_logical_order(StridedTensor(dtype, layout.shape, layout.strides));
    }
}

TEST(LogicalCopy, ReadsRandomViews) {
  std::mt19937 random(5);
  for (int i = 0; i < 300; ++i) {
    const size_t ndim = 1 + random() % 5;
    std::vector<int64_t> shape, strides;
    for (size_t d = 0; d < ndim; ++d) {
      shape.push_back(1 + random() % 5);
      strides.push_back(static_cast<int64_t>(random() % 41) - 20);
    }
    SCOPED_TRACE(i);
    expect_logical_order(StridedTensor(kAllDTypes[random() % std::size(kAllDTypes)], shape, strides));
  }
}

TEST(LogicalCopy, ReadsRandomlyPermutedAndSlicedBlocks) {
  std::mt19937 random(6);
  for (int i = 0; i < 200; ++i) {
    std::vector<int64_t> shape(1 + random() % 5);
    for (auto& dim : shape) dim = 1 + random() % 4;
    std::vector<int64_t> strides = contiguous_strides(shape);
    for (size_t d = shape.size(); d-- > 1;) {
      const size_t other = random() % (d + 1);
      std::swap(shape[d], shape[other]);
      std::swap(strides[d], strides[other]);
    }
    for (auto& dim : shape) dim = 1 + random() % dim;
    SCOPED_TRACE(i);
    expect_logical_order(StridedTensor(DType::kI16, shape, strides));
  }
}

TEST(LogicalCopy, AScalarIsOneElement) {
  const double value = 2.5;
  const LogicalCopy copy(TensorView{.data = &value, .dtype = DType::kF64});
  double out = 0;
  copy.copy(0, 1, &out);
  EXPECT_EQ(out, 2.5);
  EXPECT_TRUE(copy.contiguous());
}

TEST(LogicalCopy, AnEmptyTensorIsNeverRead) {
  const int64_t shape[] = {3, 0}, strides[] = {7, -9};
  const LogicalCopy copy(TensorView{.data = nullptr, .dtype = DType::kF32, .shape = shape, .strides = strides});
  EXPECT_EQ(copy.elements(), 0u);
  copy.copy(0, 0, nullptr);
}

TEST(LogicalCopyDeathTest, ReadingPastTheEndIsABugOfOurs) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const uint8_t bytes[4] = {};
  const int64_t shape[] = {4};
  const LogicalCopy copy(TensorView{.data = bytes, .dtype = DType::kU8, .shape = shape});
  uint8_t out[8];
  EXPECT_DEATH(copy.copy(2, 3, out), "internal check failed");
  EXPECT_DEATH(copy.copy(5, ~uint64_t{0}, out), "internal check failed");
}

}  // namespace
}  // namespace ttap
