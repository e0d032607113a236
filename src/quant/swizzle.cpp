#include <algorithm>
#include <cstring>
#include <string>

#include "ttap/quant.h"

namespace ttap {

namespace {

constexpr uint64_t kTileRows = 128;
constexpr uint64_t kTileColumns = 4;
constexpr uint64_t kTileBytes = kTileRows * kTileColumns;

// Calls `move(offset, row, column, bytes)` for each run of at most four scales that lie beside each other in both
// forms, tile by tile.
template <class Move>
void for_each_run(uint64_t rows, uint64_t columns, Move&& move) {
  const uint64_t tiles = (columns + kTileColumns - 1) / kTileColumns;
  for (uint64_t top = 0; top < rows; top += kTileRows) {
    const uint64_t height = std::min(kTileRows, rows - top);
    for (uint64_t tile = 0; tile < tiles; ++tile) {
      const uint64_t column = tile * kTileColumns;
      const uint64_t width = std::min(kTileColumns, columns - column);
      const uint64_t base = (top / kTileRows * tiles + tile) * kTileBytes;
      for (uint64_t i = 0; i < height; ++i) move(base + (i % 32) * 16 + i / 32 * 4, top + i, column, width);
    }
  }
}

}  // namespace

void swizzle_scales(const uint8_t* scales, uint64_t rows, uint64_t columns, uint64_t pitch, uint8_t* swizzled) {
  if (rows % kTileRows != 0 || columns % kTileColumns != 0) std::memset(swizzled, 0, swizzled_size(rows, columns));
  for_each_run(rows, columns, [&](uint64_t offset, uint64_t row, uint64_t column, uint64_t width) {
    const uint8_t* from = scales + row * pitch + column;
    if (width == kTileColumns)
      std::memcpy(swizzled + offset, from, kTileColumns);
    else
      std::memcpy(swizzled + offset, from, width);
  });
}

Status unswizzle_scales(const uint8_t* swizzled, uint64_t size, uint64_t rows, uint64_t columns, uint8_t* scales) {
  if (rows == 0 || columns == 0) return {};
  // The last scale of the last row is the furthest but where a tile's rows 31, 63 and 95 come after it.
  uint64_t needed = 0;
  for (uint64_t i = (rows - 1) / kTileRows * kTileRows; i < rows; ++i)
    needed = std::max(needed, swizzled_offset(i, columns - 1, columns) + 1);
  if (size < needed) {
    return Error{ErrorCode::kInvalidArgument, "swizzled scales of " + std::to_string(rows) + " rows of " +
                                                  std::to_string(columns) + " need " + std::to_string(needed) +
                                                  " bytes, and there are " + std::to_string(size)};
  }
  for_each_run(rows, columns, [&](uint64_t offset, uint64_t row, uint64_t column, uint64_t width) {
    uint8_t* to = scales + row * columns + column;
    if (width == kTileColumns)
      std::memcpy(to, swizzled + offset, kTileColumns);
    else
      std::memcpy(to, swizzled + offset, width);
  });
  return {};
}

}  // namespace ttap
