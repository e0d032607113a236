#pragma once

#include "cuda/kernels/lanes/lane_hash.h"
#include "cuda/kernels/quant/quant_unit_scale.h"
#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#endif

// Neighbouring values of one row, decoded together by one thread: 16 bytes of a target of 16 bits. They share a scale,
// or have one each. The host can run it too, with plainer instructions.
namespace ttap::cuda {

inline constexpr int kUnit = 8;

// The codes of a unit: a byte each, or two a byte with the first in the low half.
template <bool PACKED>
struct alignas(PACKED ? 4 : 8) UnitCodes {
  static constexpr int kWords = PACKED ? kUnit / 8 : kUnit / 4;
  uint32_t words[kWords];

  TTAP_HD uint32_t code(int i) const {
    return PACKED ? words[i / 8] >> (i % 8 * 4) & 0xF : words[i / 4] >> (i % 4 * 8) & 0xFF;
  }
};

template <bool PACKED>
TTAP_HD inline UnitCodes<PACKED> load_codes(const QuantJob& job, uint32_t unit) {
  return reinterpret_cast<const UnitCodes<PACKED>*>(job.payload.data)[unit];
}

TTAP_HD inline void put_low_first(const QuantJob&, UnitCodes<false>&) {}
TTAP_HD inline void put_low_first(const QuantJob& job, UnitCodes<true>& codes) {
  if (job.packing != QuantPacking::kHighFirst) return;
  for (uint32_t& word : codes.words) word = (word & 0x0F0F0F0Fu) << 4 | (word >> 4 & 0x0F0F0F0Fu);
}

// ---- its values ----

// Whether a code is NaN or infinite; may say so of one that is not.
template <QuantElement ELEMENT, bool PACKED>
TTAP_HD inline bool has_special(const UnitCodes<PACKED>& codes) {
  uint32_t found = 0;
  TTAP_UNROLL
  for (int i = 0; i < UnitCodes<PACKED>::kWords; ++i) {
    const uint32_t word = codes.words[i];
    if constexpr (ELEMENT == QuantElement::kE4M3) {
      found |= (word & 0x7F7F7F7Fu) + 0x01010101u;
    } else if constexpr (ELEMENT == QuantElement::kE5M2) {
      found |= (word & 0x7C7C7C7Cu) + 0x04040404u;
    } else if constexpr (ELEMENT == QuantElement::kE4M3Fnuz || ELEMENT == QuantElement::kE5M2Fnuz) {
      const uint32_t turned = word ^ 0x80808080u;
      found |= (turned - 0x01010101u) & ~turned;
    }
  }
  return (found & 0x80808080u) != 0;
}

template <QuantElement ELEMENT>
TTAP_HD inline float ordinary_value(uint32_t code) {
  if constexpr (ELEMENT == QuantElement::kE4M3)
    return moved<4, 3, 7>(code);
  else if constexpr (ELEMENT == QuantElement::kE5M2)
    return moved<5, 2, 15>(code);
  else if constexpr (ELEMENT == QuantElement::kE4M3Fnuz)
    return moved<4, 3, 8>(code);
  else if constexpr (ELEMENT == QuantElement::kE5M2Fnuz)
    return moved<5, 2, 16>(code);
  else if constexpr (ELEMENT == QuantElement::kE2M3)
    return moved<2, 3, 1>(code & 0x3F);
  else if constexpr (ELEMENT == QuantElement::kE3M2)
    return moved<3, 2, 3>(code & 0x3F);
  else if constexpr (ELEMENT == QuantElement::kE2M1)
    return moved<2, 1, 1>(code & 0xF);
  else
    return code_value(ELEMENT, static_cast<uint8_t>(code));
}

// The codes i and i + 4 of a word as halves: their bits moved, which makes them too small by 2^14.
TTAP_HD inline uint32_t halves_of_e2m1(uint32_t word, int i) {
  word >>= 4 * i;
  return (word << 12 & 0x80008000u) | (word << 9 & 0x0E000E00u);
}

#if defined(__CUDA_ARCH__)
__device__ inline void widen_halves(__half2 halves, float& low, float& high) {
  const float2 wide = __half22float2(halves);
  low = wide.x;
  high = wide.y;
}

__device__ inline void two_of_e2m1(uint32_t word, int i, float& low, float& high) {
  const uint32_t bits = halves_of_e2m1(word, i);
  __half2 halves;
  memcpy(&halves, &bits, sizeof halves);
  widen_halves(__hmul2(halves, __half2half2(__ushort_as_half(0x7400))), low, high);
}

#if __CUDA_ARCH__ >= 890
// The codes i and i + 1, by the instruction there is for two of them.
__device__ inline void two_of_e4m3(uint32_t word, int i, float& low, float& high) {
  const auto two = static_cast<__nv_fp8x2_storage_t>(word >> (i % 4 * 8));
  widen_halves(__half2(__nv_cvt_fp8x2_to_halfraw2(two, __NV_E4M3)), low, high);
}
#endif
#endif

// The values of codes of which none is special.
template <QuantElement ELEMENT, bool PACKED>
TTAP_HD inline void ordinary_values(const UnitCodes<PACKED>& codes, float* values) {
#if defined(__CUDA_ARCH__)
  if constexpr (ELEMENT == QuantElement::kE2M1 && PACKED) {
    TTAP_UNROLL
    for (int i = 0; i < 4; ++i) two_of_e2m1(codes.words[0], i, values[i], values[i + 4]);
  } else
#endif
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
      if constexpr (ELEMENT == QuantElement::kE4M3) {
    TTAP_UNROLL
    for (int i = 0; i < kUnit; i += 2) two_of_e4m3(codes.words[i / 4], i, values[i], values[i + 1]);
  } else
#endif
  {
    TTAP_UNROLL
    for (int i = 0; i < kUnit; ++i) values[i] = ordinary_value<ELEMENT>(codes.code(i));
  }
}

// ---- into the target ----

struct alignas(16) Vector16 {
  uint32_t words[4];
};

// Two numbers, not NaN, rounded as bf16_of() and f16_of() do.
TTAP_HD inline uint32_t narrow_two(DType dtype, float low, float high) {
#if defined(__CUDA_ARCH__)
  uint32_t both;
  if (dtype == DType::kBF16) {
    const __nv_bfloat162 made = __floats2bfloat162_rn(low, high);
    memcpy(&both, &made, sizeof both);
  } else {
    const __half2 made = __floats2half2_rn(low, high);
    memcpy(&both, &made, sizeof both);
  }
  return both;
#else
  return dtype == DType::kBF16 ? uint32_t{bf16_of(low)} | uint32_t{bf16_of(high)} << 16
                               : uint32_t{f16_of(low)} | uint32_t{f16_of(high)} << 16;
#endif
}

TTAP_HD inline void store_unit(const QuantJob& job, uint32_t unit, const float* values) {
  auto* to = static_cast<Vector16*>(job.target);
  if (job.dtype == DType::kF32) {
    TTAP_UNROLL
    for (int i = 0; i < 2; ++i) {
      Vector16 vector;
      memcpy(&vector, values + 4 * i, sizeof vector);
      to[uint64_t{unit} * 2 + static_cast<unsigned>(i)] = vector;
    }
    return;
  }
  Vector16 vector;
  TTAP_UNROLL
  for (int i = 0; i < 4; ++i) vector.words[i] = narrow_two(job.dtype, values[2 * i], values[2 * i + 1]);
  to[unit] = vector;
}

TTAP_HD inline bool is_finite(float value) { return (detail::bits_of_float(value) & 0x7F800000u) != 0x7F800000u; }

// False, and nothing done, where a value may be no number: decode_slowly().
template <QuantElement ELEMENT, bool PACKED>
TTAP_HD inline bool decode_unit(const QuantJob& job, uint32_t unit, const UnitCodes<PACKED>& codes, float scale,
                                float zero) {
  if (!is_finite(scale) || !is_finite(zero) || has_special<ELEMENT>(codes)) return false;
  float values[kUnit];
  ordinary_values<ELEMENT>(codes, values);
  if constexpr (ELEMENT >= QuantElement::kInt8) {
    const float shift = job.middle + zero;  // at most one of the two is there
    TTAP_UNROLL
    for (float& value : values) value -= shift;
  }
  TTAP_UNROLL
  for (float& value : values) value *= scale;
  store_unit(job, unit, values);
  return true;
}

// ---- value by value ----

// Value number `index` of a payload without gaps.
template <QuantElement ELEMENT, bool PACKED>
TTAP_HD inline void decode_one(const QuantJob& job, uint64_t index, float scale, float zero) {
  uint32_t code = job.payload.data[PACKED ? index / 2 : index];
  if (PACKED) code = (index % 2 != 0) != (job.packing == QuantPacking::kHighFirst) ? code >> 4 : code & 0xF;
  store(job, index, decoded_value<float>(job, code_value(ELEMENT, static_cast<uint8_t>(code)), scale, zero));
}

template <QuantElement ELEMENT, bool PACKED>
TTAP_HD inline void decode_slowly(const QuantJob& job, uint32_t unit, float scale, float zero) {
  for (unsigned i = 0; i < kUnit; ++i) decode_one<ELEMENT, PACKED>(job, uint64_t{unit} * kUnit + i, scale, zero);
}

// ---- a scale each ----

// Scales that are powers of two.
template <QuantElement ELEMENT>
TTAP_HD inline void decode_unit_of_columns(const QuantJob& job, uint32_t unit) {
  const uint32_t row = job.units_per_row.divide(unit);
  const uint32_t column = (unit - row * static_cast<uint32_t>(job.units_per_row.by)) * kUnit;
  const UnitCodes<false> codes = load_codes<false>(job, unit);
  const uint32_t block_row = job.block_rows.divide(row);
  const uint8_t* scales =
      job.scale.data + (job.swizzled ? swizzled_in_tiles(column, block_row, static_cast<uint32_t>(job.scale_tiles))
                                     : block_row * static_cast<uint32_t>(job.scale_row_step) + column);
  uint32_t raw[kUnit];
  TTAP_UNROLL
  for (int i = 0; i < kUnit; ++i) raw[i] = scales[static_cast<unsigned>(i) * job.scale_step];
  uint32_t largest = 0;
  TTAP_UNROLL
  for (int i = 0; i < kUnit; ++i) largest = raw[i] > largest ? raw[i] : largest;
  if (largest == 0xFF || has_special<ELEMENT>(codes)) {
    for (unsigned i = 0; i < kUnit; ++i)
      decode_one<ELEMENT, false>(job, uint64_t{unit} * kUnit + i, f32_of_e8m0fnu(scales[i * job.scale_step]), 0);
    return;
  }
  float values[kUnit];
  ordinary_values<ELEMENT>(codes, values);
  TTAP_UNROLL
  for (int i = 0; i < kUnit; ++i) values[i] *= f32_of_e8m0fnu(static_cast<uint8_t>(raw[i]));
  store_unit(job, unit, values);
}

}  // namespace ttap::cuda
