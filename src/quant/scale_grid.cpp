#include "quant/scale_grid.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/element.h"
#include "core/logical_copy.h"
#include "quant/code_value.h"
#include "quant/element_codes.h"

namespace ttap {
namespace {

DType dtype_of(ScaleType type) {
  switch (type) {
    case ScaleType::kF32: return DType::kF32;
    case ScaleType::kF16: return DType::kF16;
    case ScaleType::kBF16: return DType::kBF16;
    case ScaleType::kE8M0: return DType::kF8E8M0FNU;
    case ScaleType::kE4M3: return DType::kF8E4M3FN;
  }
  return DType::kF32;
}

bool may_be(DType given, DType wanted) { return given == wanted || (size_of(wanted) == 1 && given == DType::kU8); }

std::vector<float> values(const TensorView& view) {
  const PackedBytes bytes(view);
  std::vector<float> result(element_count(view));
  const size_t size = size_of(view.dtype);
  for (size_t i = 0; i < result.size(); ++i)
    result[i] = static_cast<float>(value_of(view.dtype, bytes.data() + i * size));
  return result;
}

}  // namespace

PackedBytes::PackedBytes(const TensorView& view) : data_(static_cast<const uint8_t*>(view.data)) {
  if (is_contiguous(view)) return;
  copy_.resize(byte_count(view));
  const LogicalCopy copier(view);
  copier.copy(0, copier.elements(), copy_.data());
  data_ = copy_.data();
}

Result<ScalePlaces> ScalePlaces::create(const QuantFormat& format, const Geometry& geometry,
                                        std::span<const int64_t> shape) {
  ScalePlaces places;
  // Libraries keep a scale for the whole tensor also where it has no values: nobody will ask for it.
  if (geometry.empty()) return places;
  uint64_t count = 1;
  for (const int64_t length : shape) count *= static_cast<uint64_t>(length);
  const auto grid_rows = static_cast<uint64_t>(geometry.grid_rows);
  const auto grid_columns = static_cast<uint64_t>(geometry.grid_columns);
  if (format.scale_layout == ScaleLayout::kSwizzled) {
    places.swizzled_ = true;
    places.transposed_ = format.block_rows != 1;
    const uint64_t rows = places.transposed_ ? grid_columns : grid_rows;
    places.width_ = places.transposed_ ? grid_rows : grid_columns;
    uint64_t needed = 0;
    for (uint64_t i = (rows - 1) / 128 * 128; i < rows; ++i)
      needed = std::max(needed, swizzled_offset(i, places.width_ - 1, places.width_) + 1);
    if (count < needed) {
      return wrong_group(
          fmt::format("{} swizzled scales, and {} × {} of them need {}", count, rows, places.width_, needed),
          "are they compact?");
    }
    return places;
  }
  places.transposed_ = format.scale_transposed;
  const uint64_t rows = places.transposed_ ? grid_columns : grid_rows;
  const uint64_t columns = places.transposed_ ? grid_rows : grid_columns;
  // A matrix by its last dimension; a flat one, or one of another shape, when it is of exactly the right size.
  uint64_t width = shape.empty() ? 1 : static_cast<uint64_t>(shape.back());
  uint64_t height = width == 0 ? 0 : count / width;
  if (count == rows * columns) {
    width = columns;
    height = rows;
  } else if (shape.size() < 2) {
    width = (columns + 3) / 4 * 4;
    height = (rows + 127) / 128 * 128;
    if (count != width * height) width = height = 0;
  }
  if (width < columns || height < rows) {
    return wrong_group(fmt::format("scales of shape [{}] for {} × {} blocks of {} × {} in {} × {} values",
                                   fmt::join(shape, ", "), rows, columns, geometry.block_rows, geometry.block_columns,
                                   geometry.rows, geometry.columns));
  }
  places.width_ = width;
  return places;
}

Result<ScaleGrid> ScaleGrid::create(const QuantGroup& group, const Geometry& geometry, bool with_values) {
  const QuantFormat& format = group.format;
  const TensorView& scale = *group.scale;
  const DType dtype = dtype_of(format.scale_type);
  if (!may_be(scale.dtype, dtype)) {
    return wrong_group(fmt::format("scales of {}; format '{}' has scales of {}", dtype_name(scale.dtype), format.name,
                                   dtype_name(dtype)));
  }
  TTAP_ASSIGN(const ScalePlaces places, ScalePlaces::create(format, geometry, scale.shape));
  ScaleGrid grid(geometry);
  grid.rows_per_global_ = std::max<int64_t>(geometry.rows, 1);
  if (!with_values || geometry.empty()) return grid;

  const PackedBytes bytes(scale);
  grid.block_.resize(static_cast<size_t>(geometry.grid_rows * geometry.grid_columns));
  const size_t size = size_of(dtype);
  float of_byte[256];
  if (size == 1)
    for (size_t code = 0; code < 256; ++code) {
      const auto byte = static_cast<uint8_t>(code);
      of_byte[code] = format.scale_type == ScaleType::kE8M0 ? f32_of_e8m0fnu(byte) : f32_of_e4m3fn(byte);
    }
  const uint8_t* from = bytes.data();
  std::vector<uint8_t> compact;
  if (places.swizzled()) {
    compact.resize(grid.block_.size());
    const bool by_row = !places.by_column();
    const auto rows = static_cast<uint64_t>(by_row ? geometry.grid_rows : geometry.grid_columns);
    const auto columns = static_cast<uint64_t>(by_row ? geometry.grid_columns : geometry.grid_rows);
    TTAP_TRY(unswizzle_scales(from, byte_count(scale), rows, columns, compact.data()));
    from = compact.data();
  }
  float* out = grid.block_.data();
  for (int64_t i = 0; i < geometry.grid_rows; ++i) {
    const uint8_t* at = from + static_cast<uint64_t>(i) * places.row_step() * size;
    const uint64_t step = places.column_step() * size;
    for (int64_t j = 0; j < geometry.grid_columns; ++j, at += step)
      *out++ = size == 1 ? of_byte[*at] : static_cast<float>(value_of(dtype, at));
  }
  grid.kind_ = format.global;
  if (format.global != GlobalScale::kNone) {
    grid.global_ = values(*group.global);
    grid.rows_per_global_ = std::max<int64_t>(geometry.rows / static_cast<int64_t>(grid.global_.size()), 1);
    grid.largest_ = largest_value(format.element) * format.scale_maximum;
  }
  if (format.zero_point == ZeroPoint::kInteger || format.zero_point == ZeroPoint::kValue) {
    grid.zeros_ = values(*group.zero_point);
    if (format.scale_transposed) {
      const std::vector<float> stored = grid.zeros_;
      for (int64_t i = 0; i < geometry.grid_rows; ++i)
        for (int64_t j = 0; j < geometry.grid_columns; ++j)
          grid.zeros_[static_cast<size_t>(i * geometry.grid_columns + j)] =
              stored[static_cast<size_t>(j * geometry.grid_rows + i)];
    }
  }
  return grid;
}

template <class T>
void ScaleGrid::fill_as(int64_t row, T* scales) const {
  const int64_t count = geometry_.grid_columns;
  const float* block = block_.data() + row / geometry_.block_rows * count;
  if (kind_ == GlobalScale::kNone) {
    std::copy(block, block + count, scales);
    return;
  }
  const T global = global_[static_cast<size_t>(row / rows_per_global_)];
  const T per_largest = T{1} / static_cast<T>(largest_);
  for (int64_t j = 0; j < count; ++j) scales[j] = with_global(kind_, static_cast<T>(block[j]), global, per_largest);
}

void ScaleGrid::fill(int64_t row, float* scales) const { fill_as(row, scales); }
void ScaleGrid::fill(int64_t row, double* scales) const { fill_as(row, scales); }

}  // namespace ttap
