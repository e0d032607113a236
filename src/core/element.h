#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "ttap/api.h"
#include "ttap/dtype.h"

// What one element of each format means, as plain arithmetic that CPU and GPU share.
namespace ttap {

namespace detail {
TTAP_HD constexpr float float_of_bits(uint32_t bits) { return __builtin_bit_cast(float, bits); }
}  // namespace detail

TTAP_HD constexpr float f32_of_bf16(uint16_t bits) { return detail::float_of_bits(static_cast<uint32_t>(bits) << 16); }

// A small float with EXPONENT and MANTISSA bits and an exponent BIAS, no special values. Exact in float.
template <int EXPONENT, int MANTISSA, int BIAS>
TTAP_HD constexpr float f32_of_small(uint32_t bits) {
  const uint32_t sign = (bits >> (EXPONENT + MANTISSA)) & 1;
  const uint32_t exponent = (bits >> MANTISSA) & ((1u << EXPONENT) - 1);
  const uint32_t mantissa = bits & ((1u << MANTISSA) - 1);
  float magnitude;
  if (exponent == 0) {
    // Subnormal: mantissa · 2^(1 − BIAS − MANTISSA); the power of two is a normal float in every format here.
    magnitude =
        static_cast<float>(mantissa) * detail::float_of_bits(static_cast<uint32_t>(127 + 1 - BIAS - MANTISSA) << 23);
  } else {
    magnitude = detail::float_of_bits(((exponent + 127 - BIAS) << 23) | (mantissa << (23 - MANTISSA)));
  }
  return sign ? -magnitude : magnitude;
}

namespace detail {
TTAP_HD constexpr float quiet_nan(bool negative = false) { return float_of_bits(negative ? 0xFFC00000u : 0x7FC00000u); }
TTAP_HD inline double quiet_nan_wide() {
  const uint64_t bits = uint64_t{0x7FF8} << 48;
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
TTAP_HD constexpr float infinity(bool negative) { return float_of_bits(negative ? 0xFF800000u : 0x7F800000u); }
}  // namespace detail

TTAP_HD constexpr float f32_of_f16(uint16_t bits) {
  if ((bits & 0x7C00) == 0x7C00) {
    // Keep the sign and the payload of a NaN.
    return detail::float_of_bits((static_cast<uint32_t>(bits & 0x8000) << 16) | 0x7F800000u |
                                 (static_cast<uint32_t>(bits & 0x03FF) << 13));
  }
  return f32_of_small<5, 10, 15>(bits);
}

// No infinity; S.1111.111 is NaN; largest 448.
TTAP_HD constexpr float f32_of_e4m3fn(uint8_t bits) {
  return (bits & 0x7F) == 0x7F ? detail::quiet_nan(bits >> 7) : f32_of_small<4, 3, 7>(bits);
}

// Like a short IEEE half: infinities and NaNs.
TTAP_HD constexpr float f32_of_e5m2(uint8_t bits) { return f32_of_f16(static_cast<uint16_t>(bits << 8)); }

// "fnuz": finite, one NaN (the pattern of −0), unsigned zero, bias one larger.
TTAP_HD constexpr float f32_of_e4m3fnuz(uint8_t bits) {
  return bits == 0x80 ? detail::quiet_nan() : f32_of_small<4, 3, 8>(bits);
}
TTAP_HD constexpr float f32_of_e5m2fnuz(uint8_t bits) {
  return bits == 0x80 ? detail::quiet_nan() : f32_of_small<5, 2, 16>(bits);
}

// A power of two: 2^(bits − 127); 255 is NaN. 2^−127 is a subnormal float.
TTAP_HD constexpr float f32_of_e8m0fnu(uint8_t bits) {
  if (bits == 0xFF) return detail::quiet_nan();
  return bits == 0 ? detail::float_of_bits(0x00400000u) : detail::float_of_bits(static_cast<uint32_t>(bits) << 23);
}

// 0, 0.5, 1, 1.5, 2, 3, 4, 6 and the negatives; `bits` is one nibble.
TTAP_HD constexpr float f32_of_e2m1fn(uint8_t bits) { return f32_of_small<2, 1, 1>(bits & 0xF); }

namespace detail {
TTAP_HD inline uint32_t bits_of_float(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
}  // namespace detail

// To nearest, ties to even. A NaN stays one, with its sign and what fits of the rest.
TTAP_HD inline uint16_t bf16_of(float value) {
  const uint32_t bits = detail::bits_of_float(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

TTAP_HD inline uint16_t f16_of(float value) {
  const uint32_t bits = detail::bits_of_float(value);
  const uint32_t sign = (bits >> 16) & 0x8000;
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) return static_cast<uint16_t>(sign | 0x7E00 | ((magnitude >> 13) & 0x3FF));
  if (magnitude >= 0x477FF000) return static_cast<uint16_t>(sign | 0x7C00);  // 65520 and more
  if (magnitude < 0x38800000) {                                              // subnormal: in steps of 2^-24
    const float rounded = detail::float_of_bits(magnitude) + 0.5F;
    return static_cast<uint16_t>(sign | (detail::bits_of_float(rounded) - 0x3F000000));
  }
  return static_cast<uint16_t>(sign | ((magnitude + 0xFFF + ((magnitude >> 13) & 1) - 0x38000000) >> 13));
}

// Of the float formats of at most 16 bits, which widen to float exactly.
TTAP_HD inline bool widens_to_f32(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16 || (dtype >= DType::kF8E4M3FN && dtype <= DType::kF4E2M1FNx2);
}

// Value number `part` (0, or 1 for the second of a complex or packed f4 element) of the element at `element`,
// as double: exact but for 64-bit integers beyond 2^53.
TTAP_HD inline double value_of(DType dtype, const void* element, int part = 0) {
  const auto* bytes = static_cast<const unsigned char*>(element);
  const auto load = [&](auto sample, int index) {
    memcpy(&sample, bytes + static_cast<size_t>(index) * sizeof sample, sizeof sample);
    return sample;
  };
  switch (dtype) {
    case DType::kBool: return bytes[0] != 0 ? 1.0 : 0.0;
    case DType::kU8: return bytes[0];
    case DType::kU16: return load(uint16_t{}, 0);
    case DType::kU32: return load(uint32_t{}, 0);
    case DType::kU64: return static_cast<double>(load(uint64_t{}, 0));
    case DType::kI8: return load(int8_t{}, 0);
    case DType::kI16: return load(int16_t{}, 0);
    case DType::kI32: return load(int32_t{}, 0);
    case DType::kI64: return static_cast<double>(load(int64_t{}, 0));
    case DType::kF16: return f32_of_f16(load(uint16_t{}, 0));
    case DType::kBF16: return f32_of_bf16(load(uint16_t{}, 0));
    case DType::kF32: return load(float{}, 0);
    case DType::kF64: return load(double{}, 0);
    case DType::kC64: return load(float{}, part);
    case DType::kC128: return load(double{}, part);
    case DType::kF8E4M3FN: return f32_of_e4m3fn(bytes[0]);
    case DType::kF8E5M2: return f32_of_e5m2(bytes[0]);
    case DType::kF8E4M3FNUZ: return f32_of_e4m3fnuz(bytes[0]);
    case DType::kF8E5M2FNUZ: return f32_of_e5m2fnuz(bytes[0]);
    case DType::kF8E8M0FNU: return f32_of_e8m0fnu(bytes[0]);
    case DType::kF4E2M1FNx2: return f32_of_e2m1fn(static_cast<uint8_t>(part == 0 ? bytes[0] & 0xF : bytes[0] >> 4));
  }
  return 0;
}

}  // namespace ttap
