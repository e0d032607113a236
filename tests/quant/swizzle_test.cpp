// Scales in tiles of 128 × 4.
#include <gtest/gtest.h>

#include <algorithm>

#include "made_group.h"

namespace ttap {
namespace {

TEST(Swizzle, OneTileByHand) {
  // The scale of row i and column j is 4 · (i mod 64) + j.
  std::vector<uint8_t> scales(512);
  for (size_t i = 0; i < 128; ++i)
    for (size_t j = 0; j < 4; ++j) scales[4 * i + j] = static_cast<uint8_t>(4 * (i % 64) + j);
  std::vector<uint8_t> swizzled(512);
  swizzle_scales(scales.data(), 128, 4, 4, swizzled.data());
  // Sixteen bytes for row 0: the scales of rows 0, 32, 64 and 96; then rows 1, 33, 65, 97; the last rows 31, 63, 95,
  // 127.
  const uint8_t first[16] = {0, 1, 2, 3, 128, 129, 130, 131, 0, 1, 2, 3, 128, 129, 130, 131};
  const uint8_t second[16] = {4, 5, 6, 7, 132, 133, 134, 135, 4, 5, 6, 7, 132, 133, 134, 135};
  const uint8_t last[16] = {124, 125, 126, 127, 252, 253, 254, 255, 124, 125, 126, 127, 252, 253, 254, 255};
  EXPECT_TRUE(std::equal(first, first + 16, swizzled.begin()));
  EXPECT_TRUE(std::equal(second, second + 16, swizzled.begin() + 16));
  EXPECT_TRUE(std::equal(last, last + 16, swizzled.begin() + 496));
}

TEST(Swizzle, TilesLieRowByRow) {
  // 129 rows of 5: two rows of two tiles.
  EXPECT_EQ(swizzled_offset(0, 0, 5), 0u);
  EXPECT_EQ(swizzled_offset(0, 4, 5), 512u);
  EXPECT_EQ(swizzled_offset(128, 0, 5), 1024u);
  EXPECT_EQ(swizzled_offset(128, 4, 5), 1536u);
  EXPECT_EQ(swizzled_offset(33, 2, 5), 16u + 4 + 2);
  EXPECT_EQ(swizzled_offset(127, 3, 5), 511u);
  EXPECT_EQ(swizzled_size(129, 5), 2048u);
}

TEST(Swizzle, ThereAndBackForAllShapes) {
  const auto scales = random_bytes(512 * 64, 7);
  std::vector<uint8_t> swizzled(512 * 64), back(512 * 64);
  for (uint64_t rows = 1; rows <= 512; ++rows) {
    for (uint64_t columns = 1; columns <= 64; ++columns) {
      const uint64_t size = swizzled_size(rows, columns);
      swizzle_scales(scales.data(), rows, columns, columns, swizzled.data());
      ASSERT_TRUE(unswizzle_scales(swizzled.data(), size, rows, columns, back.data()).ok());
      ASSERT_TRUE(std::equal(back.begin(), back.begin() + static_cast<int64_t>(rows * columns), scales.begin()))
          << rows << " × " << columns;
    }
  }
}

TEST(Swizzle, EachScaleIsWhereTheFormulaSays) {
  const uint64_t rows = 300, columns = 13;
  const auto scales = random_bytes(rows * columns, 3);
  std::vector<uint8_t> swizzled(swizzled_size(rows, columns), 0xAA);
  swizzle_scales(scales.data(), rows, columns, columns, swizzled.data());
  uint64_t zeros = swizzled.size();
  for (uint64_t i = 0; i < rows; ++i)
    for (uint64_t j = 0; j < columns; ++j) {
      EXPECT_EQ(swizzled[swizzled_offset(i, j, columns)], scales[i * columns + j]);
      swizzled[swizzled_offset(i, j, columns)] = 1;
      --zeros;
    }
  EXPECT_EQ(static_cast<uint64_t>(std::count(swizzled.begin(), swizzled.end(), 0)), zeros);  // the padding
}

TEST(Swizzle, PaddingAtTheEndMayBeMissing) {
  const uint64_t rows = 3, columns = 2;
  const auto scales = random_bytes(rows * columns, 5);
  std::vector<uint8_t> swizzled(512), back(rows * columns);
  swizzle_scales(scales.data(), rows, columns, columns, swizzled.data());
  const uint64_t needed = swizzled_offset(2, 1, columns) + 1;
  EXPECT_TRUE(unswizzle_scales(swizzled.data(), needed, rows, columns, back.data()).ok());
  EXPECT_EQ(back, scales);
  const Status status = unswizzle_scales(swizzled.data(), needed - 1, rows, columns, back.data());
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("need 34 bytes, and there are 33"), std::string::npos)
      << status.error().message;
}

TEST(Swizzle, RowsOfAWiderMatrix) {
  const auto scales = random_bytes(128 * 9, 2);
  std::vector<uint8_t> swizzled(512), back(128 * 3);
  swizzle_scales(scales.data(), 128, 3, 9, swizzled.data());
  ASSERT_TRUE(unswizzle_scales(swizzled.data(), 512, 128, 3, back.data()).ok());
  for (size_t i = 0; i < 128; ++i)
    EXPECT_TRUE(std::equal(back.begin() + static_cast<int64_t>(3 * i), back.begin() + static_cast<int64_t>(3 * i + 3),
                           scales.begin() + static_cast<int64_t>(9 * i)));
}

}  // namespace
}  // namespace ttap
