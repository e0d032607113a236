#include "analyze/compare/quant_picture.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "analyze/compare/detail.h"
#include "analyze/values/real_values.h"
#include "core/element.h"
#include "core/logical_copy.h"
#include "quant/geometry.h"

namespace ttap {
namespace {

constexpr size_t kGlobalsKept = 4;

// Of two blocks, or of four rows or columns where a block is one: their beginning and their end.
std::vector<int64_t> some_of(int64_t first, int64_t length, int64_t block) {
  constexpr int64_t kHead = 3;
  std::vector<int64_t> shown;
  first = std::clamp<int64_t>(first, 0, std::max<int64_t>(length - 1, 0));
  if (block == 1) {
    for (int64_t i = first; i < std::min(first + kHead + 1, length); ++i) shown.push_back(i);
    return shown;
  }
  for (int64_t start = first / block * block, blocks = 0; start < length && blocks < 2; start += block, ++blocks) {
    const int64_t end = std::min(start + block, length);
    for (int64_t i = std::max(start, first); i < end; ++i)
      if (i < std::max(start, first) + kHead || i == end - 1) shown.push_back(i);
  }
  return shown;
}

// The scales of a group, found by the place of a value in the tensor.
class Scales {
 public:
  Scales(DecodedScales decoded, const Geometry& geometry, bool transposed)
      : decoded_(std::move(decoded)),
        geometry_(geometry),
        transposed_(transposed),
        row_step_(decoded_.rows == geometry.grid_rows ? geometry.block_rows : 1) {}

  float at(int64_t row, int64_t column) const {
    if (transposed_) std::swap(row, column);
    return decoded_.values[static_cast<size_t>(row / row_step_ * decoded_.columns + column / geometry_.block_columns)];
  }

  ScaleMap map() const {
    ScaleMap map;
    map.rows = static_cast<uint64_t>(transposed_ ? decoded_.columns : decoded_.rows);
    map.columns = static_cast<uint64_t>(transposed_ ? decoded_.rows : decoded_.columns);
    if (map.rows == 0 || map.columns == 0) return map;
    const auto up = [](uint64_t x, uint64_t y) { return (x + y - 1) / y; };
    map.row_step = up(map.rows, kMostScaleCells);
    map.column_step = up(map.columns, kMostScaleCells);
    map.cells_down = up(map.rows, map.row_step);
    map.cells_right = up(map.columns, map.column_step);
    map.cells.assign(map.cells_down * map.cells_right, -std::numeric_limits<float>::infinity());
    for (uint64_t row = 0; row < map.rows; ++row)
      for (uint64_t column = 0; column < map.columns; ++column) {
        const float scale = decoded_.values[transposed_ ? column * map.rows + row : row * map.columns + column];
        float& cell = map.cells[row / map.row_step * map.cells_right + column / map.column_step];
        cell = std::isnan(cell) || std::isnan(scale) ? std::numeric_limits<float>::quiet_NaN() : std::max(cell, scale);
      }
    return map;
  }

 private:
  DecodedScales decoded_;
  Geometry geometry_;
  bool transposed_;
  int64_t row_step_;  // stored rows to a row of scales
};

void read_globals(const QuantGroup& group, QuantPicture& picture) {
  if (!group.global || group.format.global == GlobalScale::kNone) return;
  picture.global_count = element_count(*group.global);
  for_each_piece(*group.global, [&](uint64_t, const std::byte* bytes, uint64_t count) {
    for (size_t i = 0; i < std::min<size_t>(count, kGlobalsKept); ++i)
      picture.globals.push_back(value_of(group.global->dtype, bytes + i * size_of(group.global->dtype)));
    return false;
  });
}

}  // namespace

Result<QuantPicture> quant_picture(const QuantGroup& group, const TensorView* twin,
                                   const QuantPictureOptions& options) {
  TTAP_ASSIGN(const Geometry stored, geometry_of(group.format, group.shape));
  TTAP_ASSIGN(DecodedScales decoded_scales, decode_scales(group));
  const bool transposed = group.format.stored_transposed;
  QuantPicture picture;
  picture.format = group.format;
  picture.shape.assign(group.shape.begin(), group.shape.end());
  picture.rows = transposed ? stored.columns : stored.rows;
  picture.columns = transposed ? stored.rows : stored.columns;
  // Rows that share their scales are one block.
  const int64_t tall =
      std::min(std::max(stored.block_rows, group.format.shared_rows), std::max<int64_t>(stored.rows, 1));
  picture.block_rows = transposed ? stored.block_columns : tall;
  picture.block_columns = transposed ? tall : stored.block_columns;
  read_globals(group, picture);
  if (stored.empty()) return picture;

  std::vector<float> values(static_cast<size_t>(stored.rows * stored.columns));
  TTAP_TRY(decode(group, DType::kF32, values.data()));
  const TensorView view{values.data(), DType::kF32, picture.shape, {}};
  // Against itself: what codes there are, and no error. Rotated or not, these are its codes.
  QuantGroup as_it_is = group;
  as_it_is.format.rotated = false;
  TTAP_ASSIGN(const QuantStats own, quant_statistics(view, as_it_is));
  picture.codes = own.codes;
  picture.scale_min = own.scale_min;
  picture.scale_max = own.scale_max;
  picture.scales_nan = own.scales_nan;
  picture.zero_blocks = own.zero_blocks;

  const Scales scales(std::move(decoded_scales), stored, transposed);
  picture.scales = scales.map();
  BlockGrid& grid = picture.grid;
  grid.rows = some_of(options.first_row, picture.rows, picture.block_rows);
  grid.columns = some_of(options.first_column, picture.columns, picture.block_columns);
  const auto each = [&](auto&& visit) {
    for (const int64_t row : grid.rows)
      for (const int64_t column : grid.columns)
        visit(row, column, static_cast<uint64_t>(row * picture.columns + column));
  };
  each([&](int64_t row, int64_t column, uint64_t element) {
    grid.values.push_back(values[element]);
    grid.scales.push_back(scales.at(row, column));
  });
  if (twin == nullptr) return picture;

  const RealValues real(*twin);
  TTAP_ASSIGN(picture.stats, quant_statistics(real.view(), group));
  picture.stats->codes = {};
  const LogicalCopy before(real.view());
  each([&](int64_t, int64_t, uint64_t element) {
    std::byte bytes[sizeof(float)];
    before.copy(element, 1, bytes);
    grid.before.push_back(static_cast<float>(value_of(real.view().dtype, bytes)));
  });
  picture.worst = detail_of(real.view(), view, {.tolerance = {.equal_nan = true}}, 1, options.worst).worst;
  return picture;
}

Result<QuantPicture> quant_picture(const TensorView& tensor, const QuantFormat& recipe,
                                   const QuantPictureOptions& options) {
  const RealValues real(tensor);
  TTAP_ASSIGN(const EncodedTensor encoded, encode(real.view(), recipe));
  return quant_picture(encoded.group(), &real.view(), options);
}

}  // namespace ttap
