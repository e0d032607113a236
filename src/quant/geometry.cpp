#include "quant/geometry.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/element.h"
#include "quant/element_codes.h"
#include "quant/packing.h"
#include "quant/scale_grid.h"

namespace ttap {
namespace {

int64_t blocks(int64_t length, int64_t block) { return length == 0 ? 0 : (length + block - 1) / block; }

Status check_payload(const QuantFormat& format, const TensorView& payload, const Geometry& geometry) {
  TTAP_TRY(validate(payload));
  if (format.packing == QuantPacking::kNone && size_of(payload.dtype) != 1) {
    return wrong_group(fmt::format("a payload of {} does not hold a code a byte", dtype_name(payload.dtype)),
                       "packed codes need a format with a packing");
  }
  const struct {
    DType dtype;
    QuantElement element;
  } typed[] = {{DType::kF8E4M3FN, QuantElement::kE4M3},
               {DType::kF8E5M2, QuantElement::kE5M2},
               {DType::kF8E4M3FNUZ, QuantElement::kE4M3Fnuz},
               {DType::kF8E5M2FNUZ, QuantElement::kE5M2Fnuz},
               {DType::kF4E2M1FNx2, QuantElement::kE2M1}};
  for (const auto& [dtype, element] : typed)
    if (payload.dtype == dtype && format.element != element)
      return wrong_group(fmt::format("a payload of {} is not what format '{}' holds", dtype_name(dtype), format.name));
  const uint64_t needed = geometry.row_bytes * static_cast<uint64_t>(geometry.rows);
  if (byte_count(payload) != needed) {
    return wrong_group(fmt::format("the payload has {} bytes; {} × {} codes of {} bits{} have {}", byte_count(payload),
                                   geometry.rows, geometry.columns, bits_of(format.element),
                                   format.packing == QuantPacking::kNone ? " in a byte each" : ", packed", needed));
  }
  return {};
}

Status check_global(const QuantGroup& group, const Geometry& geometry) {
  if (group.format.global == GlobalScale::kNone) return {};
  if (!group.global) {
    return wrong_group(fmt::format("format '{}' has a global scale, and none was given", group.format.name),
                       "a tensor scaled by blocks alone has GlobalScale::kNone");
  }
  TTAP_TRY(validate(*group.global));
  if (geometry.empty()) return {};
  const auto count = static_cast<int64_t>(element_count(*group.global));
  if (count != 1 && (count < 1 || geometry.rows % count != 0)) {
    return wrong_group(fmt::format("{} global scales do not divide the {} rows that are stored", count, geometry.rows));
  }
  return {};
}

Status check_zero_point(const QuantGroup& group, const Geometry& geometry) {
  if (group.format.zero_point == ZeroPoint::kNone) return {};
  if (!is_integer(group.format.element)) return wrong_group("only integers have zero points");
  if (group.format.zero_point == ZeroPoint::kMiddle) return {};
  if (!group.zero_point) return wrong_group(fmt::format("format '{}' needs its zero points", group.format.name));
  TTAP_TRY(validate(*group.zero_point));
  if (geometry.empty()) return {};
  const uint64_t needed = static_cast<uint64_t>(geometry.grid_rows * geometry.grid_columns);
  if (element_count(*group.zero_point) != needed) {
    return wrong_group(fmt::format("{} zero points for {} × {} blocks", element_count(*group.zero_point),
                                   geometry.grid_rows, geometry.grid_columns));
  }
  return {};
}

}  // namespace

Status check_format(const QuantFormat& format) {
  if (format.block_rows < 0 || format.block_columns < 0 || format.shared_rows < 1)
    return wrong_group(fmt::format("a block of {} × {}", format.block_rows, format.block_columns));
  if (format.shared_rows > 1 && format.block_rows != 1)
    return wrong_group("only blocks of one row share scales by rows");
  if (!std::isfinite(format.scale_maximum) || (format.global == GlobalScale::kAmax && format.scale_maximum <= 0))
    return wrong_group(fmt::format("a largest scale of {}", format.scale_maximum));
  const int bits = bits_of(format.element);
  if (bits == 8 && format.packing != QuantPacking::kNone) return wrong_group("codes of eight bits are not packed");
  if (bits == 6 && format.packing == QuantPacking::kHighFirst)
    return wrong_group("codes of six bits are packed from the low bits on, or not at all");
  if (format.scale_layout == ScaleLayout::kSwizzled) {
    if (format.scale_type != ScaleType::kE8M0 && format.scale_type != ScaleType::kE4M3)
      return wrong_group("only scales of one byte are swizzled");
    if (format.block_rows != 1 && format.block_columns != 1)
      return wrong_group("swizzled scales belong to blocks of one row or of one column");
  }
  return {};
}

Result<Geometry> geometry_of(const QuantFormat& format, std::span<const int64_t> shape) {
  TTAP_TRY(check_format(format));
  TTAP_TRY(checked_element_count(shape, DType::kF64));
  Geometry geometry;
  geometry.columns = shape.empty() ? 1 : shape.back();
  geometry.rows = 1;
  for (size_t i = 0; i + 1 < shape.size(); ++i) geometry.rows *= shape[i];
  if (format.stored_transposed) std::swap(geometry.rows, geometry.columns);
  const auto block = [](int64_t wanted, int64_t length) {
    return std::max<int64_t>(wanted == 0 ? length : std::min(wanted, length), 1);
  };
  geometry.block_rows = block(format.block_rows, geometry.rows);
  geometry.block_columns = block(format.block_columns, geometry.columns);
  geometry.grid_rows = blocks(geometry.rows, geometry.block_rows);
  geometry.grid_columns = blocks(geometry.columns, geometry.block_columns);
  geometry.row_bytes = packed_bytes(format, static_cast<uint64_t>(geometry.columns));
  return geometry;
}

Status validate(const QuantGroup& group) {
  TTAP_ASSIGN(const Geometry geometry, geometry_of(group.format, group.shape));
  TTAP_TRY(check_payload(group.format, group.payload, geometry));
  TTAP_TRY(check_global(group, geometry));
  TTAP_TRY(check_zero_point(group, geometry));
  if (!group.scale) return wrong_group("the scales are missing");
  TTAP_TRY(validate(*group.scale));
  TTAP_TRY(ScaleGrid::create(group, geometry, false));
  return {};
}

}  // namespace ttap
