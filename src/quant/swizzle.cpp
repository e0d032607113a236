#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>

#include "ttap/quant.h"

namespace ttap {

namespace {

constexpr uint64_t kTileRows = 128;
constexpr uint64_t kTileColumns = 4;
constexpr uint64_t kTileBytes = kTileRows * kTileColumns;

// Tiles taken together: their scales of one row fill a cache line.
constexpr uint64_t kTilesAtOnce = 16;

// Calls `move(offset, row, column, width)` for each run of at most four scales that lie beside each other in both
// forms; `width` is a constant where the tile is whole.
template <class Move>
void for_each_run(uint64_t rows, uint64_t columns, Move&& move) {
  using Whole = std::integral_constant<uint64_t, kTileColumns>;
  const uint64_t tiles = (columns + kTileColumns - 1) / kTileColumns;
  const uint64_t whole_tiles = columns / kTileColumns;
  for (uint64_t top = 0; top < rows; top += kTileRows) {
    const uint64_t height = std::min(kTileRows, rows - top);
    const uint64_t base = top / kTileRows * tiles * kTileBytes;
    for (uint64_t first = 0; first < tiles; first += kTilesAtOnce) {
      const uint64_t last = std::min(whole_tiles, first + kTilesAtOnce);
      for (uint64_t i = 0; i < height; ++i) {
        const uint64_t in_tile = base + (i % 32) * 16 + i / 32 * 4;
        for (uint64_t tile = first; tile < last; ++tile)
          move(in_tile + tile * kTileBytes, top + i, tile * kTileColumns, Whole());
        if (tiles != whole_tiles && first + kTilesAtOnce >= tiles)
          move(in_tile + whole_tiles * kTileBytes, top + i, whole_tiles * kTileColumns, columns % kTileColumns);
      }
    }
  }
}

}  // namespace

void swizzle_scales(const uint8_t* scales, uint64_t rows, uint64_t columns, uint64_t pitch, uint8_t* swizzled) {
  if (rows % kTileRows != 0 || columns % kTileColumns != 0) std::memset(swizzled, 0, swizzled_size(rows, columns));
  for_each_run(rows, columns, [&](uint64_t offset, uint64_t row, uint64_t column, auto width) {
    std::memcpy(swizzled + offset, scales + row * pitch + column, width);
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
  for_each_run(rows, columns, [&](uint64_t offset, uint64_t row, uint64_t column, auto width) {
    std::memcpy(scales + row * columns + column, swizzled + offset, width);
  });
  return {};
}

}  // namespace ttap
