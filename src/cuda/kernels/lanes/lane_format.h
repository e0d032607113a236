#pragma once

#include <cstdint>

#include "core/element.h"
#include "cuda/kernels/lanes/packed16.h"

// The real formats of more than a byte, as a lane sees them: words of 32 bits, or of 64.
namespace ttap::cuda {

enum class LaneKind : uint8_t { kFloat, kSigned, kUnsigned };

template <int BITS, uint64_t INFINITE, uint64_t MANTISSA>
struct FloatLane {
  static constexpr LaneKind kKind = LaneKind::kFloat;
  static constexpr int kBits = BITS;
  static constexpr uint64_t kSign = uint64_t{1} << (BITS - 1);
  static constexpr uint64_t kInfinite = INFINITE;  // the smallest magnitude that is not finite
  static constexpr uint64_t kMantissa = MANTISSA;  // the largest subnormal
  static constexpr bool kMayBeHuge = BITS == 64;   // such that sums come near to what a double can hold
};
template <int BITS, LaneKind KIND>
struct IntegerLane {
  static constexpr LaneKind kKind = KIND;
  static constexpr int kBits = BITS;
  static constexpr bool kMayBeHuge = false;
};

// kHighest and kLowest, twice: what every value of the format takes the place of.
struct LaneBF16 : FloatLane<16, 0x7F80, 0x7F> {
  static constexpr uint32_t kHighest = 0x7F807F80u, kLowest = 0xFF80FF80u;
  TTAP_HD static double low(uint32_t word) { return f64_of_low_bf16(word); }
  TTAP_HD static double high(uint32_t word) { return f64_of_high_bf16(word); }
  TTAP_HD static float low_f32(uint32_t word) { return ttap::detail::float_of_bits(word << 16); }
  TTAP_HD static float high_f32(uint32_t word) { return ttap::detail::float_of_bits(word & 0xFFFF0000u); }
  TTAP_HD static uint32_t min(uint32_t a, uint32_t b) { return min_bf16x2(a, b); }
  TTAP_HD static uint32_t max(uint32_t a, uint32_t b) { return max_bf16x2(a, b); }
  TTAP_HD static uint32_t min_magnitude(uint32_t a, uint32_t b) { return min_magnitude_bf16x2(a, b); }
  TTAP_HD static uint32_t is_zero(uint32_t word) { return is_zero_bf16x2(word); }
  TTAP_HD static double value(uint64_t bits) { return f32_of_bf16(static_cast<uint16_t>(bits)); }
};
struct LaneF16 : FloatLane<16, 0x7C00, 0x3FF> {
  static constexpr uint32_t kHighest = 0x7C007C00u, kLowest = 0xFC00FC00u;
  TTAP_HD static double low(uint32_t word) { return f64_of_low_f16(word); }
  TTAP_HD static double high(uint32_t word) { return f64_of_high_f16(word); }
  TTAP_HD static float low_f32(uint32_t word) { return f32_of_low_f16(word); }
  TTAP_HD static float high_f32(uint32_t word) { return f32_of_low_f16(word >> 16); }
  TTAP_HD static uint32_t min(uint32_t a, uint32_t b) { return min_f16x2(a, b); }
  TTAP_HD static uint32_t max(uint32_t a, uint32_t b) { return max_f16x2(a, b); }
  TTAP_HD static uint32_t min_magnitude(uint32_t a, uint32_t b) { return min_magnitude_f16x2(a, b); }
  TTAP_HD static uint32_t is_zero(uint32_t word) { return is_zero_f16x2(word); }
  TTAP_HD static double value(uint64_t bits) { return f32_of_f16(static_cast<uint16_t>(bits)); }
};
struct LaneI16 : IntegerLane<16, LaneKind::kSigned> {
  static constexpr uint32_t kHighest = 0x7FFF7FFFu, kLowest = 0x80008000u;
  TTAP_HD static int32_t low(uint32_t word) { return static_cast<int16_t>(word); }
  TTAP_HD static int32_t high(uint32_t word) { return static_cast<int32_t>(word) >> 16; }
  TTAP_HD static uint32_t min(uint32_t a, uint32_t b) { return min_s16x2(a, b); }
  TTAP_HD static uint32_t max(uint32_t a, uint32_t b) { return max_s16x2(a, b); }
  TTAP_HD static double value(uint64_t bits) { return static_cast<int16_t>(bits); }
};
struct LaneU16 : IntegerLane<16, LaneKind::kUnsigned> {
  static constexpr uint32_t kHighest = 0xFFFFFFFFu, kLowest = 0x00000000u;
  TTAP_HD static uint32_t low(uint32_t word) { return word & 0xFFFF; }
  TTAP_HD static uint32_t high(uint32_t word) { return word >> 16; }
  TTAP_HD static uint32_t min(uint32_t a, uint32_t b) { return min_u16x2(a, b); }
  TTAP_HD static uint32_t max(uint32_t a, uint32_t b) { return max_u16x2(a, b); }
  TTAP_HD static double value(uint64_t bits) { return static_cast<uint16_t>(bits); }
};

// Worked with as they are, or as N: integers of 64 bits are rounded to double before anything else.
template <class F, class W, class T, class N = T>
struct WideLane : F {
  using Word = W;
  TTAP_HD static N native(W bits) {
    T value;
    memcpy(&value, &bits, sizeof value);
    return static_cast<N>(value);
  }
  TTAP_HD static double value(uint64_t bits) { return static_cast<double>(native(static_cast<W>(bits))); }
};
using LaneF32 = WideLane<FloatLane<32, 0x7F800000, 0x7FFFFF>, uint32_t, float>;
using LaneF64 = WideLane<FloatLane<64, 0x7FF0000000000000, 0xFFFFFFFFFFFFF>, uint64_t, double>;
using LaneI32 = WideLane<IntegerLane<32, LaneKind::kSigned>, uint32_t, int32_t>;
using LaneU32 = WideLane<IntegerLane<32, LaneKind::kUnsigned>, uint32_t, uint32_t>;
using LaneI64 = WideLane<IntegerLane<64, LaneKind::kSigned>, uint64_t, int64_t, double>;
using LaneU64 = WideLane<IntegerLane<64, LaneKind::kUnsigned>, uint64_t, uint64_t, double>;

// Of a magnitude, which for the most negative integer is only right without a sign.
template <class F>
TTAP_HD inline double value_of_magnitude(uint64_t magnitude) {
  if constexpr (F::kKind == LaneKind::kFloat)
    return F::value(magnitude);
  else
    return static_cast<double>(magnitude);
}

}  // namespace ttap::cuda
