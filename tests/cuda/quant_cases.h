#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "quant/geometry.h"
#include "ttap/quant.h"

// Quantized groups of every format and layout, filled with random bytes: every code and every scale occurs, NaN and
// infinity among them.
namespace ttap::test {

struct QuantCase {
  std::string name;
  QuantFormat format;
};

// The tensors of a group, each in memory of its own.
struct QuantParts {
  QuantFormat format;
  std::vector<int64_t> shape;
  std::vector<int64_t> payload_shape = {}, scale_shape = {}, global_shape = {}, zero_shape = {};
  std::vector<uint8_t> payload = {}, scale = {}, global = {}, zero = {};
  DType scale_dtype = DType::kU8, zero_dtype = DType::kI8;

  // The group with its tensors at these addresses.
  QuantGroup group(const void* at_payload, const void* at_scale, const void* at_global, const void* at_zero) const {
    QuantGroup made{.format = format, .shape = shape, .payload = {at_payload, DType::kU8, payload_shape, {}}};
    made.scale = TensorView{at_scale, scale_dtype, scale_shape, {}};
    if (!global_shape.empty()) made.global = TensorView{at_global, DType::kF32, global_shape, {}};
    if (!zero_shape.empty()) made.zero_point = TensorView{at_zero, zero_dtype, zero_shape, {}};
    return made;
  }
  QuantGroup group() const { return group(payload.data(), scale.data(), global.data(), zero.data()); }
  uint64_t values() const {
    uint64_t count = 1;
    for (const int64_t length : shape) count *= static_cast<uint64_t>(length);
    return count;
  }
};

namespace detail {

inline std::vector<uint8_t> bytes_of(const std::vector<float>& values) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
  return {bytes, bytes + values.size() * sizeof(float)};
}

// Most are ordinary; some are what arithmetic trips over.
inline std::vector<float> scales_of_floats(size_t count, std::minstd_rand& random) {
  const float odd[] = {0, -0.0F, 1e-40F, 3e38F, -2, INFINITY, -INFINITY, NAN, -NAN};
  std::vector<float> made(count);
  for (float& value : made) {
    value = std::ldexp(static_cast<float>(random() % 4096 + 1), static_cast<int>(random() % 24) - 20);
    if (random() % 16 == 0) value = odd[random() % std::size(odd)];
  }
  return made;
}

}  // namespace detail

inline QuantParts parts_of(const QuantFormat& format, std::vector<int64_t> shape, unsigned seed = 1) {
  std::minstd_rand random(seed);
  const auto fill = [&](uint64_t count) {
    std::vector<uint8_t> bytes(count);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random() >> 8);
    return bytes;
  };
  QuantParts parts{.format = format, .shape = std::move(shape)};
  const Geometry geometry = geometry_of(format, parts.shape).value();
  parts.payload = fill(geometry.row_bytes * static_cast<uint64_t>(geometry.rows));
  parts.payload_shape = {static_cast<int64_t>(parts.payload.size())};
  const bool swizzled = format.scale_layout == ScaleLayout::kSwizzled;
  const bool by_column = swizzled ? format.block_rows != 1 : format.scale_transposed;
  int64_t rows = by_column ? geometry.grid_columns : geometry.grid_rows;
  int64_t columns = by_column ? geometry.grid_rows : geometry.grid_columns;
  if (format.scale_layout != ScaleLayout::kCompact) {
    rows = (rows + 127) / 128 * 128;
    columns = (columns + 3) / 4 * 4;
  }
  parts.scale_shape = {rows, columns};
  const auto scales = static_cast<size_t>(rows * columns);
  switch (format.scale_type) {
    case ScaleType::kF32:
      parts.scale_dtype = DType::kF32;
      parts.scale = detail::bytes_of(detail::scales_of_floats(scales, random));
      break;
    case ScaleType::kF16:
    case ScaleType::kBF16:
      parts.scale_dtype = format.scale_type == ScaleType::kF16 ? DType::kF16 : DType::kBF16;
      parts.scale = fill(2 * scales);
      break;
    default: parts.scale = fill(scales);
  }
  if (format.global != GlobalScale::kNone) {
    const bool per_row = format.global_per_row && geometry.rows > 0;
    parts.global_shape = {per_row ? geometry.rows : 1};
    std::vector<float> global(static_cast<size_t>(parts.global_shape[0]));
    for (float& value : global) value = std::ldexp(static_cast<float>(random() % 4096 + 1), -12);
    parts.global = detail::bytes_of(global);
  }
  if (format.zero_point == ZeroPoint::kInteger || format.zero_point == ZeroPoint::kValue) {
    const int64_t zeros = geometry.grid_rows * geometry.grid_columns;
    parts.zero_shape = {zeros};
    parts.zero = fill(static_cast<uint64_t>(zeros));
    if (format.zero_point == ZeroPoint::kValue) {
      parts.zero_dtype = DType::kBF16;
      parts.zero = fill(2 * static_cast<uint64_t>(zeros));
    }
  }
  return parts;
}

inline std::vector<QuantCase> quant_cases() {
  std::vector<QuantCase> cases;
  const auto named = [](const std::string& name) { return quant_format(name).value(); };
  const auto add = [&](std::string name, const QuantFormat& format) {
    cases.push_back({name, format});
    QuantFormat turned = format;
    turned.stored_transposed = true;
    cases.push_back({name + " transposed", turned});
  };
  const auto add_layouts = [&](const std::string& name, QuantFormat format) {
    add(name, format);
    format.scale_layout = ScaleLayout::kPadded;
    add(name + " padded", format);
    format.scale_layout = ScaleLayout::kSwizzled;
    add(name + " swizzled", format);
  };
  for (const char* name : {"fp8_e4m3", "fp8_e5m2", "fp8_e4m3fnuz", "fp8_e5m2fnuz"}) {
    add(name, named(name));
    add(std::string(name) + "_row", named(std::string(name) + "_row"));
  }
  for (const char* name : {"fp8_block_1x128", "fp8_block_128x128"}) {
    QuantFormat format = named(name);
    add(name, format);
    format.scale_transposed = true;
    add(std::string(name) + " scales transposed", format);
    format.scale_layout = ScaleLayout::kPadded;
    add(std::string(name) + " scales transposed and padded", format);
  }
  QuantFormat divided = named("fp8_e4m3_row");
  divided.scale_divides = true;
  add("fp8 by a divisor", divided);
  for (const char* name : {"mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp4"}) {
    QuantFormat format = named(name);
    add_layouts(name, format);
    format.block_rows = 32;
    format.block_columns = 1;
    add_layouts(std::string(name) + " by columns", format);
  }
  QuantFormat six = named("mxfp6_e2m3");
  six.packing = QuantPacking::kLowFirst;
  add("mxfp6_e2m3 packed", six);
  for (const GlobalScale global :
       {GlobalScale::kNone, GlobalScale::kFactor, GlobalScale::kDivisor, GlobalScale::kAmax}) {
    QuantFormat format = named("nvfp4");
    format.global = global;
    add_layouts("nvfp4 of global kind " + std::to_string(static_cast<int>(global)), format);
  }
  add_layouts("nvfp4_row", named("nvfp4_row"));
  add_layouts("nvfp4_2d", named("nvfp4_2d"));
  QuantFormat high = named("nvfp4");
  high.packing = QuantPacking::kHighFirst;
  add("nvfp4 high first", high);
  high.packing = QuantPacking::kNone;
  add("nvfp4 a byte each", high);
  for (const char* name : {"int8", "int8_tensor", "int8_asym", "int4", "int4_group32", "int4_group32_asym"})
    add(name, named(name));
  for (const QuantElement element : {QuantElement::kUInt8, QuantElement::kInt4, QuantElement::kUInt4})
    for (const ZeroPoint zero : {ZeroPoint::kInteger, ZeroPoint::kValue, ZeroPoint::kMiddle})
      for (const ScaleType scale : {ScaleType::kBF16, ScaleType::kF16}) {
        QuantFormat format = named("int4_group32");
        format.element = element;
        if (element == QuantElement::kUInt8) format.packing = QuantPacking::kNone;
        format.zero_point = zero;
        format.scale_type = scale;
        const std::string name = "integers " + std::to_string(static_cast<int>(element)) + " with zero points " +
                                 std::to_string(static_cast<int>(zero)) + " and scales " +
                                 std::to_string(static_cast<int>(scale));
        add(name, format);
        format.scale_transposed = true;
        add(name + ", transposed", format);
        format.scale_divides = true;
        add(name + ", transposed, that divide", format);
      }
  return cases;
}

inline std::vector<std::vector<int64_t>> quant_shapes() {
  return {{100, 80}, {1, 16}, {3, 48}, {7, 33}, {1, 1}, {2, 3, 64}, {9, 1024}, {256}, {}, {0, 64}, {5, 0}};
}

// `wanted` and `found` hold values of `dtype`; empty, or the first that differs.
inline std::string first_difference(DType dtype, const std::vector<uint8_t>& wanted,
                                    const std::vector<uint8_t>& found) {
  const size_t size = size_of(dtype);
  for (size_t i = 0; i < wanted.size(); i += size) {
    if (std::memcmp(wanted.data() + i, found.data() + i, size) == 0) continue;
    uint64_t bits[2] = {};
    std::memcpy(&bits[0], wanted.data() + i, size);
    std::memcpy(&bits[1], found.data() + i, size);
    char text[128];
    std::snprintf(text, sizeof text, "value %zu of %zu is %llx, not %llx", i / size, wanted.size() / size,
                  static_cast<unsigned long long>(bits[1]), static_cast<unsigned long long>(bits[0]));
    return text;
  }
  return {};
}

}  // namespace ttap::test
