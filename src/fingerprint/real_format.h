#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "core/element.h"
#include "fingerprint/stats_part.h"

// Real formats by their bits, and their statistics the plain way.
namespace ttap {

enum class RealKind : uint8_t { kFloat, kSigned, kUnsigned };

// MANTISSA is the number of explicit mantissa bits; INFINITE the smallest magnitude that is not finite.
template <std::unsigned_integral B, int MANTISSA, B INFINITE>
struct FloatFormat {
  using Bits = B;
  static constexpr RealKind kKind = RealKind::kFloat;
  static constexpr B kSign = static_cast<B>(B{1} << (8 * sizeof(B) - 1));
  static constexpr B kMantissa = static_cast<B>((B{1} << MANTISSA) - 1);
  static constexpr B kInfinite = INFINITE;
  static constexpr bool kHasInfinity = true;
  static constexpr bool kNegativeZeroIsNan = false;
};

struct F16 : FloatFormat<uint16_t, 10, 0x7C00> {
  static double value(Bits bits) { return f32_of_f16(bits); }
};
struct BF16 : FloatFormat<uint16_t, 7, 0x7F80> {
  static double value(Bits bits) { return f32_of_bf16(bits); }
};
struct F32 : FloatFormat<uint32_t, 23, 0x7F800000> {
  static double value(Bits bits) { return std::bit_cast<float>(bits); }
};
struct F64 : FloatFormat<uint64_t, 52, 0x7FF0000000000000> {
  static double value(Bits bits) { return std::bit_cast<double>(bits); }
};
struct E4M3FN : FloatFormat<uint8_t, 3, 0x7F> {
  static constexpr bool kHasInfinity = false;
  static double value(Bits bits) { return f32_of_e4m3fn(bits); }
};
struct E5M2 : FloatFormat<uint8_t, 2, 0x7C> {
  static double value(Bits bits) { return f32_of_e5m2(bits); }
};
struct E4M3FNUZ : FloatFormat<uint8_t, 3, 0x80> {
  static constexpr bool kNegativeZeroIsNan = true;
  static double value(Bits bits) { return f32_of_e4m3fnuz(bits); }
};
struct E5M2FNUZ : FloatFormat<uint8_t, 2, 0x80> {
  static constexpr bool kHasInfinity = false;
  static constexpr bool kNegativeZeroIsNan = true;
  static double value(Bits bits) { return f32_of_e5m2fnuz(bits); }
};

template <std::integral T>
struct IntegerFormat {
  using Bits = std::make_unsigned_t<T>;
  static constexpr RealKind kKind = std::signed_integral<T> ? RealKind::kSigned : RealKind::kUnsigned;
  static double value(Bits bits) { return static_cast<double>(static_cast<T>(bits)); }
};

using I8 = IntegerFormat<int8_t>;
using I16 = IntegerFormat<int16_t>;
using I32 = IntegerFormat<int32_t>;
using I64 = IntegerFormat<int64_t>;
using U8 = IntegerFormat<uint8_t>;
using U16 = IntegerFormat<uint16_t>;
using U32 = IntegerFormat<uint32_t>;
using U64 = IntegerFormat<uint64_t>;

template <class Format>
typename Format::Bits load_bits(const std::byte* data, size_t i) {
  typename Format::Bits bits;
  std::memcpy(&bits, data + i * sizeof bits, sizeof bits);
  return bits;
}

// Counts `bits` among the NaNs and infinities of `part` if it is one; integers never are.
template <class Format>
bool count_if_not_finite(typename Format::Bits bits, StatsPart& part) {
  if constexpr (Format::kKind == RealKind::kFloat) {
    const auto magnitude = static_cast<typename Format::Bits>(bits & ~Format::kSign);
    if (Format::kNegativeZeroIsNan ? bits != Format::kSign : magnitude < Format::kInfinite) return false;
    if (!Format::kHasInfinity || magnitude != Format::kInfinite)
      ++part.nan;
    else
      ++((bits & Format::kSign) ? part.neg_inf : part.pos_inf);
    return true;
  } else {
    return false;
  }
}

// Whether values, or their squares, may add up to more than a double can hold.
template <class Format>
inline constexpr bool kMayBeHuge = Format::kKind == RealKind::kFloat && sizeof(typename Format::Bits) == 8;

// The mean of such values, which is a double all the same, and their spread if it is one: in units of 2^64, and of 2^32
// where they are squared. At most a block.
template <class Format>
void set_from_huge(const std::byte* data, size_t count, StatsPart& part) {
  constexpr double kUnit = 0x1p64;
  constexpr double kUnitRoot = 0x1p32;
  const double finite = static_cast<double>(part.finite);
  const auto for_each = [&](const auto& take) {
    StatsPart unused;
    for (size_t i = 0; i < count; ++i) {
      const auto bits = load_bits<Format>(data, i);
      if (!count_if_not_finite<Format>(bits, unused)) take(Format::value(bits) / kUnit);
    }
  };
  double sum = 0;
  for_each([&](double value) { sum += value; });
  const double near_mean = sum / finite;
  double distance = 0;
  double squares = 0;
  for_each([&](double value) {
    const double offset = (value - near_mean) * kUnitRoot;
    distance += offset;
    squares += offset * offset;
  });
  const double rest = distance / finite;
  constexpr double kMost = std::numeric_limits<double>::max();
  part.mean = std::clamp(near_mean * kUnit, -kMost, kMost);
  part.mean_rest = rest * kUnitRoot;
  part.m2 = (squares - distance * rest) * kUnit;
  if (part.m2 < 0) part.m2 = 0;
}

// One value at a time, twice over the data: the scalar path, and what finishes the odd values at the end of the others.
// At most a block.
template <class Format>
StatsPart plain_stats(const std::byte* data, size_t count) {
  StatsPart part;
  double sum = 0;
  for (size_t i = 0; i < count; ++i) {
    const auto bits = load_bits<Format>(data, i);
    if (count_if_not_finite<Format>(bits, part)) continue;
    const double value = Format::value(bits);
    const double magnitude = std::fabs(value);
    ++part.finite;
    if (value < part.min) part.min = value;
    if (value > part.max) part.max = value;
    if (magnitude == 0)
      ++part.zeros;
    else if (magnitude < part.min_abs_nonzero)
      part.min_abs_nonzero = magnitude;
    if constexpr (Format::kKind == RealKind::kFloat) {
      const auto fraction = static_cast<typename Format::Bits>(bits & ~Format::kSign);
      if (fraction != 0 && fraction <= Format::kMantissa) ++part.subnormals;
    }
    part.l1 += magnitude;
    sum += value;
  }
  if (part.finite == 0) return part;
  const double finite = static_cast<double>(part.finite);
  const double near_mean = sum / finite;
  double distance = 0;
  double squares = 0;
  StatsPart unused;
  for (size_t i = 0; i < count; ++i) {
    const auto bits = load_bits<Format>(data, i);
    if (count_if_not_finite<Format>(bits, unused)) continue;
    const double offset = Format::value(bits) - near_mean;
    distance += offset;
    squares += offset * offset;
  }
  // `distance` is what rounding left of the mean.
  set_mean(part, near_mean, distance / finite);
  part.m2 = squares - distance * (distance / finite);
  if (part.m2 < 0) part.m2 = 0;
  if constexpr (kMayBeHuge<Format>)
    if (!std::isfinite(squares)) set_from_huge<Format>(data, count, part);
  return part;
}

}  // namespace ttap
