#include <gtest/gtest.h>

#include <cstring>

#include "core/logical_copy.h"
#include "cuda/kernels/device_job.h"
#include "sample_tensors.h"

namespace ttap::cuda {
namespace {

// The elements in C order, unit by unit, as the kernel gathers them.
std::vector<std::byte> gathered(const TensorView& view, const StridedLayout& layout) {
  std::vector<std::byte> bytes(byte_count(view));
  for (uint64_t at = 0; at < bytes.size(); at += layout.unit) {
    uint64_t index = at / layout.unit;
    const auto* from = static_cast<const std::byte*>(view.data);
    for (uint32_t i = layout.dims; i-- > 0;) {
      from += static_cast<int64_t>(index % layout.shape[i]) * layout.strides[i];
      index /= layout.shape[i];
    }
    EXPECT_EQ(reinterpret_cast<uintptr_t>(from) % layout.unit, 0u) << "a unit lies on a multiple of its size";
    std::memcpy(&bytes[at], from, layout.unit);
  }
  return bytes;
}

TEST(StridedLayout, gathers_the_logical_bytes_of_every_dtype_and_layout) {
  for (const test::SampleTensor& sample : test::sample_tensors()) {
    const TensorView view = sample.view();
    if (element_count(view) == 0) continue;
    EXPECT_EQ(gathered(view, strided_layout(view)), test::logical_bytes(view)) << sample.name;
  }
}

TEST(StridedLayout, gathers_backwards_and_through_five_permuted_dimensions) {
  const std::vector<std::byte> bytes = test::sample_bytes(DType::kF32, 2 * 3 * 4 * 5 * 6, 1);
  const int64_t permuted[] = {6, 4, 2, 5, 3};
  const int64_t strides[] = {1, 30, 360, 6, 120};
  const TensorView view{bytes.data(), DType::kF32, permuted, strides};
  EXPECT_EQ(gathered(view, strided_layout(view)), test::logical_bytes(view));
  const int64_t reversed[] = {720};
  const int64_t back[] = {-1};
  const TensorView backwards{bytes.data() + 719 * 4, DType::kF32, reversed, back};
  EXPECT_EQ(gathered(backwards, strided_layout(backwards)), test::logical_bytes(backwards));
}

TEST(VectorLayout, finds_the_vectors_of_up_to_four_dimensions) {
  alignas(16) std::byte bytes[1 << 16] = {};
  for (size_t i = 0; i < sizeof bytes; ++i) bytes[i] = static_cast<std::byte>(i * 31 + i / 251);
  using Sizes = std::vector<int64_t>;
  const std::pair<Sizes, Sizes> cases[] = {{{3, 5, 7, 16}, {5 * 7 * 16, 16, 5 * 16, 1}},
                                           {{7, 24}, {64, 1}},
                                           {{9, 8}, {-72, 1}},
                                           {{6, 4, 8}, {8, 48, 1}},
                                           {{4, 8}, {0, 1}}};
  for (const auto& [shape, strides] : cases) {
    const size_t offset = strides[0] < 0 ? 8 * 144 : 0;
    const TensorView view{bytes + offset, DType::kBF16, shape, strides};
    const auto layout = vector_layout(strided_layout(view));
    ASSERT_TRUE(layout);
    std::vector<std::byte> found(byte_count(view));
    for (uint32_t i = 0; i < found.size() / 16; ++i)
      std::memcpy(&found[16 * i], bytes + offset + layout->offset(i), 16);
    EXPECT_EQ(found, test::logical_bytes(view));
  }
  const Sizes narrow = {64, 4}, transposed = {1, 64};
  EXPECT_FALSE(vector_layout(strided_layout({bytes, DType::kBF16, narrow, transposed}))) << "no vectors";
  const Sizes five = {2, 3, 2, 3, 16}, strides = {16, 16 * 16, 1024, 3 * 4096, 1};
  EXPECT_FALSE(vector_layout(strided_layout({bytes, DType::kBF16, five, strides}))) << "five dimensions";
  const Sizes huge = {int64_t{1} << 31, 8}, apart = {16, 1};
  EXPECT_FALSE(vector_layout(strided_layout({bytes, DType::kBF16, huge, apart}))) << "too many vectors";
}

TEST(StridedLayout, takes_the_widest_unit_that_lies_together) {
  alignas(16) std::byte bytes[4096] = {};
  const auto unit = [&](size_t offset, std::vector<int64_t> shape, std::vector<int64_t> strides) {
    return strided_layout({bytes + offset, DType::kBF16, shape, strides}).unit;
  };
  EXPECT_EQ(unit(0, {4, 64}, {128, 1}), 16u);
  EXPECT_EQ(unit(0, {4, 60}, {128, 1}), 8u) << "a row of 120 bytes";
  EXPECT_EQ(unit(4, {4, 64}, {128, 1}), 4u) << "four bytes off";
  EXPECT_EQ(unit(0, {64, 4}, {1, 64}), 2u) << "transposed";
}

}  // namespace
}  // namespace ttap::cuda
