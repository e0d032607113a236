#include <algorithm>
#include <string>

#include "core/float_mode.h"
#include "core/large_pages.h"
#include "quant/row_decoder.h"

namespace ttap {
namespace {

// Rows that are decoded before they are written as columns: together a cache line or more of each.
constexpr int64_t kTransposedRows = 32;

template <class T>
void write_columns(const T* rows, int64_t count, int64_t columns, int64_t first, int64_t pitch, T* target) {
  for (int64_t column = 0; column < columns; ++column)
    for (int64_t row = 0; row < count; ++row) target[column * pitch + first + row] = rows[row * columns + column];
}

void decode_transposed(RowDecoder& decoder, DType dtype, void* target) {
  const Geometry& geometry = decoder.geometry();
  const size_t size = size_of(dtype);
  std::vector<std::byte> rows(static_cast<size_t>(kTransposedRows * geometry.columns) * size);
  for (int64_t first = 0; first < geometry.rows; first += kTransposedRows) {
    const int64_t count = std::min(kTransposedRows, geometry.rows - first);
    for (int64_t i = 0; i < count; ++i)
      decoder.decode(first + i, dtype, rows.data() + static_cast<size_t>(i * geometry.columns) * size);
    const auto write = [&](auto sample) {
      using T = decltype(sample);
      write_columns(reinterpret_cast<const T*>(rows.data()), count, geometry.columns, first, geometry.rows,
                    static_cast<T*>(target));
    };
    if (size == 8)
      write(uint64_t{});
    else if (size == 4)
      write(uint32_t{});
    else
      write(uint16_t{});
  }
}

}  // namespace

Status decode(const QuantGroup& group, DType dtype, void* target) {
  if (dtype != DType::kF32 && dtype != DType::kF64 && dtype != DType::kBF16 && dtype != DType::kF16)
    return wrong_group("values decode to f32, f64, bf16 or f16, not to " + std::string(dtype_name(dtype)));
  TTAP_TRY(validate(group));
  TTAP_ASSIGN(const Geometry geometry, geometry_of(group.format, group.shape));
  if (geometry.empty()) return {};
  const DefaultFloatMode mode;
  TTAP_ASSIGN(RowDecoder decoder, RowDecoder::create(group));
  prefer_large_pages(target, static_cast<size_t>(geometry.rows * geometry.columns) * size_of(dtype));
  if (group.format.stored_transposed) {
    decode_transposed(decoder, dtype, target);
    return {};
  }
  auto* out = static_cast<std::byte*>(target);
  const size_t row_size = static_cast<size_t>(geometry.columns) * size_of(dtype);
  for (int64_t row = 0; row < geometry.rows; ++row)
    decoder.decode(row, dtype, out + static_cast<size_t>(row) * row_size);
  return {};
}

Result<DecodedScales> decode_scales(const QuantGroup& group) {
  TTAP_TRY(validate(group));
  const DefaultFloatMode mode;
  TTAP_ASSIGN(const Geometry geometry, geometry_of(group.format, group.shape));
  if (geometry.empty()) return DecodedScales();
  TTAP_ASSIGN(const ScaleGrid grid, ScaleGrid::create(group, geometry));
  DecodedScales scales;
  // With a global scale for each row there is a row of scales for each.
  const int64_t step = grid.varies_by_row() ? 1 : geometry.block_rows;
  scales.rows = (geometry.rows + step - 1) / step;
  scales.columns = geometry.grid_columns;
  scales.values.resize(static_cast<size_t>(scales.rows * scales.columns));
  for (int64_t i = 0; i < scales.rows; ++i) grid.fill(i * step, scales.values.data() + i * scales.columns);
  return scales;
}

}  // namespace ttap
