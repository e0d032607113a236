#include <algorithm>
#include <bit>
#include <cstring>

#include "core/float_mode.h"
#include "quant/packing.h"
#include "quant/quantizer.h"
#include "quant/row_reader.h"
#include "quant/scale_grid.h"

namespace ttap {
namespace {

size_t size_of_scale(ScaleType type) {
  switch (type) {
    case ScaleType::kF32: return 4;
    case ScaleType::kF16:
    case ScaleType::kBF16: return 2;
    default: return 1;
  }
}

int64_t up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

// Padded to what the swizzled form has: 128 along the rows of the tiles, 4 along their columns.
std::vector<int64_t> shape_of_scales(const QuantFormat& format, const Geometry& geometry) {
  const bool by_column = format.block_rows != 1 && format.block_columns == 1;
  int64_t rows = geometry.grid_rows;
  int64_t columns = geometry.grid_columns;
  if (format.scale_layout != ScaleLayout::kCompact) {
    rows = up(rows, by_column ? 4 : 128);
    columns = up(columns, by_column ? 128 : 4);
  }
  const bool turned = format.scale_layout == ScaleLayout::kSwizzled ? by_column : format.scale_transposed;
  if (turned) std::swap(rows, columns);
  return {rows, columns};
}

void allocate(const Geometry& geometry, EncodedTensor& made) {
  const QuantFormat& format = made.format;
  made.payload.resize(static_cast<size_t>(geometry.rows) * geometry.row_bytes);
  if (format.stored_transposed)
    made.payload_shape = {geometry.rows, static_cast<int64_t>(geometry.row_bytes)};
  else
    made.payload_shape = made.shape;
  if (!made.payload_shape.empty()) made.payload_shape.back() = static_cast<int64_t>(geometry.row_bytes);
  made.scale_shape = shape_of_scales(format, geometry);
  made.scale.resize(static_cast<size_t>(made.scale_shape[0] * made.scale_shape[1]) * size_of_scale(format.scale_type));
  if (format.zero_point == ZeroPoint::kInteger) {
    made.zero_point_shape = {geometry.grid_rows, geometry.grid_columns};
    if (format.scale_transposed) std::swap(made.zero_point_shape[0], made.zero_point_shape[1]);
    made.zero_point.resize(static_cast<size_t>(geometry.grid_rows * geometry.grid_columns));
  }
  if (format.global != GlobalScale::kNone) {
    made.global_shape = {format.global_per_row ? geometry.rows : 1};
    made.global.resize(static_cast<size_t>(made.global_shape[0]));
  }
}

// The chosen scales of a row of blocks into their places.
void store_scales(const Quantizer& quantizer, const ScalePlaces& places, int64_t grid_row, EncodedTensor& made) {
  const size_t size = size_of_scale(made.format.scale_type);
  const auto& chosen = quantizer.chosen();
  for (size_t j = 0; j < chosen.size(); ++j) {
    std::memcpy(made.scale.data() + places.of(grid_row, static_cast<int64_t>(j)) * size, &chosen[j].stored, size);
    if (made.zero_point.empty()) continue;
    const Geometry& geometry = quantizer.geometry();
    const int64_t at = made.format.scale_transposed ? static_cast<int64_t>(j) * geometry.grid_rows + grid_row
                                                    : grid_row * geometry.grid_columns + static_cast<int64_t>(j);
    made.zero_point[static_cast<size_t>(at)] = static_cast<int8_t>(static_cast<int>(chosen[j].zero));
  }
}

float amax_of(RowReader& reader, std::vector<float>& buffer) {
  uint32_t largest = 0;
  uint32_t least = 0xFFFFFFFF;
  const auto columns = static_cast<size_t>(reader.columns());
  for (int64_t row = 0; row < reader.rows(); ++row)
    row_kernels().extremes(reader.row(row, buffer.data()), columns, up(reader.columns(), 16), &largest, &least);
  return std::bit_cast<float>(largest);
}

}  // namespace

QuantGroup EncodedTensor::group() const {
  QuantGroup group{.format = format, .shape = shape, .payload = {payload.data(), DType::kU8, payload_shape, {}}};
  const DType types[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kF8E8M0FNU, DType::kF8E4M3FN};
  group.scale = TensorView{scale.data(), types[static_cast<size_t>(format.scale_type)], scale_shape, {}};
  if (!global.empty()) group.global = TensorView{global.data(), DType::kF32, global_shape, {}};
  if (format.zero_point == ZeroPoint::kInteger) {
    const bool wide = format.element == QuantElement::kUInt8;
    group.zero_point = TensorView{zero_point.data(), wide ? DType::kU8 : DType::kI8, zero_point_shape, {}};
  }
  return group;
}

Result<EncodedTensor> encode(const TensorView& tensor, const QuantFormat& format, const EncodeOptions& options) {
  TTAP_TRY(validate(tensor));
  TTAP_TRY(RowReader::check_dtype(tensor.dtype));
  TTAP_ASSIGN(const Geometry geometry, geometry_of(format, tensor.shape));
  TTAP_ASSIGN(Quantizer quantizer,
              Quantizer::create(format, geometry.empty() ? Geometry() : geometry, tensor.dtype, options));
  const DefaultFloatMode mode;
  EncodedTensor made;
  made.format = format;
  made.shape.assign(tensor.shape.begin(), tensor.shape.end());
  allocate(geometry, made);
  TTAP_ASSIGN(const ScalePlaces places, ScalePlaces::create(format, geometry, made.scale_shape));
  if (geometry.empty()) return made;

  RowReader reader(tensor, format.stored_transposed);
  std::vector<float> buffer(static_cast<size_t>(geometry.columns));
  std::vector<uint8_t> codes(buffer.size());
  float global = 1;
  if (quantizer.wants_amax())
    global = quantizer.global(options.amax ? *options.amax : amax_of(reader, buffer));
  else if (options.global)
    global = *options.global;
  if (!made.global.empty() && !format.global_per_row) made.global[0] = global;

  const int64_t strip = quantizer.strip_rows();
  for (int64_t first = 0; first < geometry.rows; first += strip) {
    const int64_t end = std::min(geometry.rows, first + strip);
    quantizer.start_strip();
    for (int64_t row = first; row < end; ++row) quantizer.observe(reader.row(row, buffer.data()));
    const float used = quantizer.choose(global);
    if (format.global_per_row) made.global[static_cast<size_t>(first)] = used;
    for (int64_t row = first; row < end; row += geometry.block_rows)
      store_scales(quantizer, places, row / geometry.block_rows, made);
    for (int64_t row = first; row < end; ++row) {
      quantizer.encode(reader.row(row, buffer.data()), codes.data());
      pack_row(format, codes.data(), codes.size(),
               reinterpret_cast<uint8_t*>(made.payload.data()) + static_cast<uint64_t>(row) * geometry.row_bytes);
    }
  }
  return made;
}

}  // namespace ttap
