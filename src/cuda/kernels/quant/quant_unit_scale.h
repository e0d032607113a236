#pragma once

#include "cuda/kernels/quant/quant_job.h"

// The scale of a unit (quant_unit.h): found by numbers of 32 bits, loaded as it is stored, and made a number later.
namespace ttap::cuda {

// A small float that is not special: its bits moved to those of a float, which is then too small by a power of two.
template <int EXPONENT, int MANTISSA, int BIAS>
TTAP_HD inline float moved(uint32_t code) {
  constexpr uint32_t kSign = 1u << (EXPONENT + MANTISSA);
  const uint32_t bits = (code & kSign) << (31 - EXPONENT - MANTISSA) | (code & (kSign - 1)) << (23 - MANTISSA);
  return detail::float_of_bits(bits) * detail::float_of_bits(static_cast<uint32_t>(254 - BIAS) << 23);
}

// What a kernel knows of the scales beforehand: fewer instructions for the formats that are met most. But for kAny
// codes are packed with the low half first if at all and have no zero points; f32 and E8M0 are without a global scale.
enum class UnitScales : uint8_t { kAny, kF32, kE8M0, kE4M3 };

inline UnitScales unit_scales(const QuantJob& job) {
  if (job.zero_point != ZeroPoint::kNone || job.packing == QuantPacking::kHighFirst) return UnitScales::kAny;
  if (job.scale_type == ScaleType::kE4M3) return UnitScales::kE4M3;
  if (job.global_kind != GlobalScale::kNone) return UnitScales::kAny;
  if (job.scale_type == ScaleType::kE8M0) return UnitScales::kE8M0;
  return job.scale_type == ScaleType::kF32 ? UnitScales::kF32 : UnitScales::kAny;
}

template <UnitScales SCALES>
TTAP_HD inline bool has_global(const QuantJob& job) {
  return (SCALES == UnitScales::kAny || SCALES == UnitScales::kE4M3) && job.global_kind != GlobalScale::kNone;
}

template <UnitScales SCALES>
TTAP_HD inline bool has_zeros(const QuantJob& job) {
  return SCALES == UnitScales::kAny && job.zero_point == ZeroPoint::kInteger;
}

// As it is stored, so that it can be on its way while others are asked for.
struct UnitScale {
  uint32_t raw = 0;
  float global = 1;
  uint32_t zero = 0;
};

template <UnitScales SCALES>
TTAP_HD inline uint32_t load_raw(const ByteLayout& layout, uint64_t index) {
  const uint32_t size = SCALES == UnitScales::kAny ? layout.size : SCALES == UnitScales::kF32 ? 4 : 1;
  if (size == 1) return layout.data[index];
  if (size == 2) return reinterpret_cast<const uint16_t*>(layout.data)[index];
  return reinterpret_cast<const uint32_t*>(layout.data)[index];
}

template <UnitScales SCALES>
TTAP_HD inline float first_global(const QuantJob& job) {
  return has_global<SCALES>(job) ? *reinterpret_cast<const float*>(job.global.data) : 1;
}

template <UnitScales SCALES>
TTAP_HD inline UnitScale load_scale(const QuantJob& job, uint32_t unit, float global) {
  UnitScale scale{.global = global};
  if (job.scales_in_a_row) {
    const uint32_t place = job.units_per_block.divide(unit);
    scale.raw = load_raw<SCALES>(job.scale, place);
    if (has_zeros<SCALES>(job)) scale.zero = load_raw<SCALES>(job.zero, place);
    return scale;
  }
  const uint32_t row = job.units_per_row.divide(unit);
  const uint32_t column = job.units_per_block.divide(unit - row * static_cast<uint32_t>(job.units_per_row.by));
  // As scale_place(). Swizzled scales of blocks that are longer than a column are by rows.
  if (job.swizzled) {
    scale.raw = load_raw<SCALES>(job.scale, swizzled_in_tiles(row, column, static_cast<uint32_t>(job.scale_tiles)));
  } else {
    const uint32_t block_row = job.block_rows.divide(row);
    scale.raw = load_raw<SCALES>(job.scale, block_row * static_cast<uint32_t>(job.scale_row_step) +
                                                column * static_cast<uint32_t>(job.scale_column_step));
  }
  if (has_global<SCALES>(job) && job.global_by_row)
    scale.global = reinterpret_cast<const float*>(job.global.data)[job.rows_per_global.divide(row)];
  if (has_zeros<SCALES>(job)) {
    const uint32_t block_row = job.block_rows.divide(row);
    scale.zero = load_raw<SCALES>(
        job.zero, job.zeros_by_column ? column * job.grid_rows + block_row : block_row * job.grid_columns + column);
  }
  return scale;
}

template <UnitScales SCALES>
TTAP_HD inline float value_of(const QuantJob& job, const UnitScale& scale) {
  const uint32_t raw = scale.raw;
  const auto is = [&](UnitScales scales, ScaleType type) {
    return SCALES == scales || (SCALES == UnitScales::kAny && job.scale_type == type);
  };
  float own;
  if (is(UnitScales::kE8M0, ScaleType::kE8M0))
    own = f32_of_e8m0fnu(static_cast<uint8_t>(raw));
  else if (is(UnitScales::kE4M3, ScaleType::kE4M3))
    own = (raw & 0x7F) == 0x7F ? detail::quiet_nan() : moved<4, 3, 7>(raw);
  else if (is(UnitScales::kF32, ScaleType::kF32))
    own = detail::float_of_bits(raw);
  else
    own = job.scale_type == ScaleType::kF16 ? f32_of_f16(static_cast<uint16_t>(raw))
                                            : f32_of_bf16(static_cast<uint16_t>(raw));
  return has_global<SCALES>(job) ? with_global(job, own, scale.global) : own;
}

template <UnitScales SCALES>
TTAP_HD inline float zero_of(const QuantJob& job, const UnitScale& scale) {
  if (!has_zeros<SCALES>(job)) return 0;
  const uint32_t raw = scale.zero;
  if (job.zero_dtype == DType::kI8) return static_cast<int8_t>(raw);
  if (job.zero_dtype == DType::kU8) return static_cast<float>(raw);
  return detail::float_of_bits(raw);
}

}  // namespace ttap::cuda
