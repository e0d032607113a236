// One tensor in the layouts that libraries store it in: all decode to the same values, bit for bit.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/element.h"
#include "made_group.h"

namespace ttap {
namespace {

constexpr int64_t kRows = 100;
constexpr int64_t kColumns = 160;

int64_t up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }
size_t at(int64_t value) { return static_cast<size_t>(value); }

// `rows` × `columns` inside a larger matrix of garbage.
std::vector<uint8_t> padded(const std::vector<uint8_t>& compact, int64_t rows, int64_t columns, int64_t all_rows,
                            int64_t all_columns, size_t size = 1) {
  std::vector<uint8_t> result = random_bytes(at(all_rows * all_columns) * size, 77);
  for (int64_t i = 0; i < rows; ++i)
    std::copy_n(compact.begin() + i * columns * static_cast<int64_t>(size), columns * static_cast<int64_t>(size),
                result.begin() + i * all_columns * static_cast<int64_t>(size));
  return result;
}

template <class T>
std::vector<T> transposed(const std::vector<T>& matrix, int64_t rows, int64_t columns) {
  std::vector<T> result(matrix.size());
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) result[at(j * rows + i)] = matrix[at(i * columns + j)];
  return result;
}

std::vector<uint8_t> swizzled(const std::vector<uint8_t>& scales, int64_t rows, int64_t columns) {
  std::vector<uint8_t> result(swizzled_size(at(rows), at(columns)));
  swizzle_scales(scales.data(), at(rows), at(columns), at(columns), result.data());
  // What lies in the padding must not matter.
  std::vector<bool> used(result.size());
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) used[swizzled_offset(at(i), at(j), at(columns))] = true;
  for (size_t i = 0; i < result.size(); ++i)
    if (!used[i]) result[i] = 0xFF;
  return result;
}

// MXFP8 along the rows, compact.
MadeGroup mxfp8() {
  MadeGroup made{.format = format_named("mxfp8_e4m3"), .shape = {kRows, kColumns}};
  made.payload = random_bytes(at(kRows * kColumns), 1);
  made.scale = random_bytes(at(kRows * kColumns / 32), 2);
  made.scale_shape = {kRows, kColumns / 32};
  return made;
}

TEST(Layouts, PaddedScalesAreCropped) {
  MadeGroup made = mxfp8();
  const auto expected = decoded(made.group());
  made.format.scale_layout = ScaleLayout::kPadded;
  EXPECT_TRUE(same_values(decoded(made.group()), expected)) << "padding that is missing";
  made.scale = padded(made.scale, kRows, kColumns / 32, 128, 8);
  made.scale_shape = {128, 8};
  EXPECT_TRUE(same_values(decoded(made.group()), expected));
  made.scale_shape = {128 * 8};
  EXPECT_TRUE(same_values(decoded(made.group()), expected)) << "flat";
}

TEST(Layouts, SwizzledScalesDecodeAsCompactOnes) {
  MadeGroup made = mxfp8();
  const auto expected = decoded(made.group());
  made.format.scale_layout = ScaleLayout::kSwizzled;
  made.scale = swizzled(made.scale, kRows, kColumns / 32);
  made.scale_shape = {32, 32};
  EXPECT_TRUE(same_values(decoded(made.group()), expected));
  // Without the padding behind the last scale that is needed.
  made.scale.resize(swizzled_offset(99, 4, 5) + 1 + 16 * 28);
  made.scale_shape = {static_cast<int64_t>(made.scale.size())};
  EXPECT_TRUE(same_values(decoded(made.group()), expected));
}

// Blocks of 32 × 1: the payload as it is, a scale for each row of blocks and column.
TEST(Layouts, Mxfp8ByColumnsIsNotTransposed) {
  const int64_t block_rows = 4;  // ⌈100 / 32⌉
  MadeGroup made{.format = format_named("mxfp8_e4m3"), .shape = {kRows, kColumns}};
  made.format.block_rows = 32;
  made.format.block_columns = 1;
  EXPECT_TRUE(made.format.columnwise());
  made.payload = random_bytes(at(kRows * kColumns), 1);
  made.scale = random_bytes(at(block_rows * kColumns), 2);
  made.scale_shape = {block_rows, kColumns};
  const auto values = decoded(made.group());
  for (int64_t i = 0; i < kRows; ++i)
    for (int64_t j = 0; j < kColumns; ++j) {
      const float element = value_of_code(QuantElement::kE4M3, made.payload[at(i * kColumns + j)]);
      const float expected = element * f32_of_e8m0fnu(made.scale[at(i / 32 * kColumns + j)]);
      const float value = values[at(i * kColumns + j)];
      ASSERT_TRUE(value == expected || (std::isnan(value) && std::isnan(expected))) << i << ' ' << j;
    }
  MadeGroup wide = made;
  wide.format.scale_layout = ScaleLayout::kPadded;
  wide.scale = padded(made.scale, block_rows, kColumns, 4, 256);
  wide.scale_shape = {4, 256};
  EXPECT_TRUE(same_values(decoded(wide.group()), values));
  // Swizzled, the column is the outer row.
  MadeGroup tiles = made;
  tiles.format.scale_layout = ScaleLayout::kSwizzled;
  tiles.scale = swizzled(transposed(made.scale, block_rows, kColumns), kColumns, block_rows);
  tiles.scale_shape = {static_cast<int64_t>(tiles.scale.size())};
  EXPECT_TRUE(same_values(decoded(tiles.group()), values));
}

TEST(Layouts, OneRowOfBlocksByColumnsMayBeSwizzled) {
  MadeGroup made{.format = format_named("mxfp8_e4m3"), .shape = {32, kColumns}};
  made.format.block_rows = 32;
  made.format.block_columns = 1;
  made.payload = random_bytes(at(32 * kColumns), 1);
  made.scale = random_bytes(at(kColumns), 2);
  made.scale_shape = {1, kColumns};
  MadeGroup tiles = made;
  tiles.format.scale_layout = ScaleLayout::kSwizzled;
  tiles.scale = swizzled(made.scale, kColumns, 1);
  tiles.scale_shape = {static_cast<int64_t>(tiles.scale.size())};
  EXPECT_TRUE(same_values(decoded(tiles.group()), decoded(made.group())));
}

// NVFP4 by columns is the rows of the transposed matrix.
TEST(Layouts, Nvfp4ByColumnsIsTransposed) {
  MadeGroup rows{.format = format_named("nvfp4"), .shape = {kColumns, kRows}};
  rows.format.global = GlobalScale::kAmax;
  rows.payload = random_bytes(at(kColumns * kRows / 2), 3);
  const int64_t blocks = 7;  // ⌈100 / 16⌉: the last is short
  rows.scale = random_bytes(at(kColumns * blocks), 4);
  rows.scale_shape = {kColumns, blocks};
  rows.global = {3};
  const auto expected = transposed(decoded(rows.group()), kColumns, kRows);
  MadeGroup columns = rows;
  columns.shape = {kRows, kColumns};
  columns.format.stored_transposed = true;
  EXPECT_TRUE(same_values(decoded(columns.group()), expected));
  columns.format.scale_layout = ScaleLayout::kPadded;
  columns.scale = padded(rows.scale, kColumns, blocks, up(kColumns, 128), up(blocks, 4));
  columns.scale_shape = {up(kColumns, 128), up(blocks, 4)};
  EXPECT_TRUE(same_values(decoded(columns.group()), expected));
  columns.format.scale_layout = ScaleLayout::kSwizzled;
  columns.scale = swizzled(rows.scale, kColumns, blocks);
  columns.scale_shape = {static_cast<int64_t>(columns.scale.size())};
  EXPECT_TRUE(same_values(decoded(columns.group()), expected));
  // To every dtype.
  std::vector<uint16_t> half = decoded<uint16_t>(columns.group(), DType::kBF16);
  for (size_t i = 0; i < half.size(); ++i)
    if (expected[i] == 0) {
      EXPECT_EQ(f32_of_bf16(half[i]), 0) << i;
    }
}

// A scale for 16 × 16 values, stored once per row: blocks of one row that happen to agree.
TEST(Layouts, Nvfp4InTwoDimensions) {
  MadeGroup made{.format = format_named("nvfp4_2d"), .shape = {32, 32}};
  made.payload = random_bytes(512, 3);
  const auto of_block = random_bytes(4, 9);
  made.scale_shape = {32, 2};
  for (size_t i = 0; i < 32; ++i)
    for (size_t j = 0; j < 2; ++j) made.scale.push_back(of_block[i / 16 * 2 + j]);
  made.global = {1};
  const auto values = decoded(made.group());
  for (size_t i = 0; i < values.size(); ++i) {
    const auto code = static_cast<uint8_t>(i % 2 == 0 ? made.payload[i / 2] & 15 : made.payload[i / 2] >> 4);
    const float scale = f32_of_e4m3fn(of_block[i / 32 / 16 * 2 + i % 32 / 16]);
    const float expected = f32_of_e2m1fn(code) * scale;
    EXPECT_TRUE(values[i] == expected || (std::isnan(values[i]) && std::isnan(expected)));
  }
}

struct BlockFp8 {
  bool by_columns;
  int64_t height;
};
class Fp8Blocks : public testing::TestWithParam<BlockFp8> {};

// Block FP8 as TransformerEngine stores it: 1 × 128 has its scales transposed, [block, up(rows, 4)]; by columns the
// payload is transposed, and the scales are those of the transposed matrix.
TEST_P(Fp8Blocks, AsTransformerEngineStoresThem) {
  const auto [by_columns, height] = GetParam();
  const int64_t rows = by_columns ? kColumns : kRows, columns = by_columns ? kRows : kColumns;
  const int64_t grid_rows = (rows + height - 1) / height, grid_columns = (columns + 127) / 128;
  MadeGroup compact{.format = format_named(height == 1 ? "fp8_block_1x128" : "fp8_block_128x128"),
                    .shape = {rows, columns}};
  compact.payload = random_bytes(at(rows * columns), 5);
  const auto scales = normal_values(at(grid_rows * grid_columns), 6);
  compact.set_scales(scales);
  compact.scale_shape = {grid_rows, grid_columns};
  auto expected = decoded(compact.group());
  if (by_columns) expected = transposed(expected, rows, columns);

  MadeGroup made = compact;
  made.shape = {kRows, kColumns};
  made.format.stored_transposed = by_columns;
  made.format.scale_layout = ScaleLayout::kPadded;
  if (height == 1) {
    made.format.scale_transposed = true;
    made.set_scales(transposed(scales, grid_rows, grid_columns));
    made.scale = padded(made.scale, grid_columns, grid_rows, grid_columns, up(grid_rows, 4), 4);
    made.scale_shape = {grid_columns, up(grid_rows, 4)};
  } else {
    made.scale = padded(made.scale, grid_rows, grid_columns, grid_rows, up(grid_columns, 4), 4);
    made.scale_shape = {grid_rows, up(grid_columns, 4)};
  }
  EXPECT_TRUE(same_values(decoded(made.group()), expected));
}

INSTANTIATE_TEST_SUITE_P(All, Fp8Blocks,
                         testing::Values(BlockFp8{false, 1}, BlockFp8{false, 128}, BlockFp8{true, 1},
                                         BlockFp8{true, 128}));

}  // namespace
}  // namespace ttap
