#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/kernels/lanes/compiler.h"
#include "cuda/kernels/lanes/divisor.h"
#include "quant/code_value.h"
#include "ttap/quant.h"

// A quantized group as the kernels take it, by value. What is done with it is plain arithmetic, which the host can run
// as well.
namespace ttap::cuda {

// Bytes in C order that may lie with strides, neighbouring dimensions merged.
struct ByteLayout {
  static constexpr uint32_t kMost = 4;
  const uint8_t* data = nullptr;
  uint32_t dims = 0;  // 0: as they come
  uint32_t size = 1;  // of an element
  uint64_t shape[kMost] = {};
  int64_t strides[kMost] = {};  // in bytes

  TTAP_HD const uint8_t* at(uint64_t byte) const {
    if (dims == 0) return data + byte;
    uint64_t index = byte / size;
    auto offset = static_cast<int64_t>(byte - index * size);
    for (uint32_t d = dims; d-- > 0;) {
      const uint64_t above = index / shape[d];
      offset += static_cast<int64_t>(index - above * shape[d]) * strides[d];
      index = above;
    }
    return data + offset;
  }
  TTAP_HD const uint8_t* element(uint64_t index) const { return at(index * size); }
};

struct QuantJob {
  ByteLayout payload = {}, scale = {}, global = {}, zero = {};
  void* target = nullptr;
  DType dtype = DType::kF32;
  // The matrix as it is stored, its blocks and the grid they form. Rows may have been joined to one long one.
  uint64_t rows = 0;
  Divisor columns = {};
  Divisor block_rows = {}, block_columns = {};
  uint64_t grid_rows = 0, grid_columns = 0;
  uint64_t row_bytes = 0;
  uint64_t scales = 0;
  uint64_t scale_row_step = 0, scale_column_step = 0;  // in scales
  uint64_t scale_tiles = 0;                            // of swizzled ones, side by side
  Divisor rows_per_global = {};
  QuantElement element = QuantElement::kE4M3;
  QuantPacking packing = QuantPacking::kNone;
  ScaleType scale_type = ScaleType::kF32;
  GlobalScale global_kind = GlobalScale::kNone;
  ZeroPoint zero_point = ZeroPoint::kNone;
  DType global_dtype = DType::kF32, zero_dtype = DType::kI8;
  bool swizzled = false;
  bool swizzled_by_column = false;  // the column of a block is the row of its tile
  bool zeros_by_column = false;     // zero points lie column by column
  bool divides = false;
  bool transposed = false;  // the matrix that is stored is the target's other way round
  float middle = 0;         // taken from each code
  float per_largest = 1;    // one by what GlobalScale::kAmax is for
  double per_largest_wide = 1;

  // For units (quant_unit.h).
  uint32_t units = 0;  // 0 where the layout has none
  bool one_scale = false;
  bool scales_in_a_row = false;  // and zero points
  bool global_by_row = false;
  bool scale_each = false;  // a scale for each value of a unit, `scale_step` bytes apart
  uint32_t scale_step = 0;
  Divisor units_per_row = {}, units_per_block = {};

  TTAP_HD uint64_t values() const { return rows * columns.by; }
};

// ---- one value ----

// Kept out of line: it is long, and rarely asked for.
TTAP_APART TTAP_HD inline float float_of_any(DType dtype, const uint8_t* at) {
  return static_cast<float>(value_of(dtype, at));
}

TTAP_HD inline float float_at(DType dtype, const uint8_t* at) {
  switch (dtype) {
    case DType::kF32: {
      float value;
      memcpy(&value, at, sizeof value);
      return value;
    }
    case DType::kF16:
    case DType::kBF16: {
      const auto bits = static_cast<uint16_t>(at[0] | at[1] << 8);
      return dtype == DType::kF16 ? f32_of_f16(bits) : f32_of_bf16(bits);
    }
    case DType::kF8E8M0FNU: return f32_of_e8m0fnu(*at);
    case DType::kF8E4M3FN: return f32_of_e4m3fn(*at);
    case DType::kI8: return static_cast<int8_t>(*at);
    case DType::kU8: return *at;
    default: return float_of_any(dtype, at);
  }
}

TTAP_HD inline DType dtype_of_scale(ScaleType type) {
  switch (type) {
    case ScaleType::kF16: return DType::kF16;
    case ScaleType::kBF16: return DType::kBF16;
    case ScaleType::kE8M0: return DType::kF8E8M0FNU;
    case ScaleType::kE4M3: return DType::kF8E4M3FN;
    default: return DType::kF32;
  }
}

// Which of the stored scales is that of a block.
TTAP_HD inline uint64_t scale_place(const QuantJob& job, uint64_t grid_row, uint64_t grid_column) {
  if (!job.swizzled) return grid_row * job.scale_row_step + grid_column * job.scale_column_step;
  return job.swizzled_by_column ? swizzled_in_tiles(grid_column, grid_row, job.scale_tiles)
                                : swizzled_in_tiles(grid_row, grid_column, job.scale_tiles);
}

// The scale of a block with the global one.
TTAP_HD inline float with_global(const QuantJob& job, float own, float global) {
  return with_global(job.global_kind, own, global, job.per_largest);
}
TTAP_HD inline double with_global(const QuantJob& job, double own, double global) {
  return with_global(job.global_kind, own, global, job.per_largest_wide);
}

template <class T>
TTAP_HD inline T scale_of(const QuantJob& job, uint64_t row, uint64_t column) {
  const uint64_t place = scale_place(job, job.block_rows.divide_any(row), job.block_columns.divide_any(column));
  const T own = float_at(dtype_of_scale(job.scale_type), job.scale.element(place));
  if (job.global_kind == GlobalScale::kNone) return own;
  return with_global(
      job, own, static_cast<T>(float_at(job.global_dtype, job.global.element(job.rows_per_global.divide_any(row)))));
}

TTAP_HD inline float zero_of(const QuantJob& job, uint64_t row, uint64_t column) {
  const uint64_t i = job.block_rows.divide_any(row), j = job.block_columns.divide_any(column);
  return float_at(job.zero_dtype,
                  job.zero.element(job.zeros_by_column ? j * job.grid_rows + i : i * job.grid_columns + j));
}

TTAP_HD inline uint8_t code_at(const QuantJob& job, uint64_t row, uint64_t column) {
  const uint64_t first = row * job.row_bytes;
  if (job.packing == QuantPacking::kNone) return *job.payload.at(first + column);
  if (code_bits(job.element) == 6) {
    const uint64_t at = column * 6 / 8;
    const unsigned high = at + 1 < job.row_bytes ? *job.payload.at(first + at + 1) : 0u;
    return static_cast<uint8_t>((*job.payload.at(first + at) | high << 8) >> (column * 6 % 8) & 0x3F);
  }
  const unsigned byte = *job.payload.at(first + column / 2);
  const bool high = (column % 2 != 0) != (job.packing == QuantPacking::kHighFirst);
  return static_cast<uint8_t>(high ? byte >> 4 : byte & 0xF);
}

// Of a narrower target: rounded to it, and widened again.
TTAP_HD inline float through(DType dtype, float value) {
  if (dtype == DType::kBF16) return f32_of_bf16(bf16_of(value));
  return dtype == DType::kF16 ? f32_of_f16(f16_of(value)) : value;
}
TTAP_HD inline double through(DType, double value) { return value; }

// A code with its scale and zero point, as RowDecoder takes them.
template <class T>
TTAP_HD inline T decoded_value(const QuantJob& job, float code, T scale, float zero) {
  T value = job.middle != 0 ? code - job.middle : code;
  if (job.zero_point == ZeroPoint::kInteger) value -= static_cast<T>(zero);
  value = job.divides ? value / scale : value * scale;
  if (job.zero_point == ZeroPoint::kValue) {
    // The product is rounded before the zero is added, as arithmetic in the narrower dtype does.
    if (!job.divides) value = through(job.dtype, value);
    value += static_cast<T>(zero);
  }
  return with_one_nan(value);
}

template <class T>
TTAP_HD inline T decoded_at(const QuantJob& job, uint64_t row, uint64_t column) {
  const bool has_zero = job.zero_point == ZeroPoint::kInteger || job.zero_point == ZeroPoint::kValue;
  return decoded_value<T>(job, code_value(job.element, code_at(job, row, column)), scale_of<T>(job, row, column),
                          has_zero ? zero_of(job, row, column) : 0);
}

// Into place `index` of the target.
TTAP_HD inline void store(const QuantJob& job, uint64_t index, float value) {
  if (job.dtype == DType::kF32) {
    static_cast<float*>(job.target)[index] = value;
  } else {
    static_cast<uint16_t*>(job.target)[index] = job.dtype == DType::kBF16 ? bf16_of(value) : f16_of(value);
  }
}
TTAP_HD inline void store(const QuantJob& job, uint64_t index, double value) {
  static_cast<double*>(job.target)[index] = value;
}

}  // namespace ttap::cuda
