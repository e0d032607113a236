#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "ttap/quant.h"

// What the codes of each element mean, and which code a number gets.
namespace ttap {

// The bits of a small float and the numbers that rounding to it needs. NAN_CODE is 0 where there is none.
template <int EXPONENT, int MANTISSA, int BIAS, uint32_t LARGEST, uint32_t NAN_CODE, bool NEGATIVE_ZERO = true>
struct SmallFloat {
  static constexpr int kExponent = EXPONENT;
  static constexpr int kMantissa = MANTISSA;
  static constexpr uint32_t kLargestCode = LARGEST;
  static constexpr uint32_t kNanCode = NAN_CODE;
  static constexpr bool kNegativeZero = NEGATIVE_ZERO;
  static constexpr int kSignShift = 31 - EXPONENT - MANTISSA;  // from the sign of a float to that of a code
  // The largest value and the smallest normal one, as bits of a float.
  static constexpr uint32_t kLargest = ((LARGEST >> MANTISSA) + 127 - BIAS) << 23 | (LARGEST & ((1u << MANTISSA) - 1))
                                                                                        << (23 - MANTISSA);
  static constexpr uint32_t kSmallestNormal = static_cast<uint32_t>(128 - BIAS) << 23;
  // A float whose last bit is worth the smallest step: adding it rounds what is subnormal.
  static constexpr uint32_t kStep = static_cast<uint32_t>(127 - BIAS + 23 - MANTISSA + 1) << 23;
  // Added to the bits of a float that is normal in the format: another bias, and a half but for the last bit.
  static constexpr uint32_t kRebias = static_cast<uint32_t>((BIAS - 127) * (1 << 23)) + ((1u << (22 - MANTISSA)) - 1);
};

using CodeE4M3 = SmallFloat<4, 3, 7, 0x7E, 0x7F>;
using CodeE5M2 = SmallFloat<5, 2, 15, 0x7B, 0x7F>;
using CodeE4M3Fnuz = SmallFloat<4, 3, 8, 0x7F, 0x80, false>;
using CodeE5M2Fnuz = SmallFloat<5, 2, 16, 0x7F, 0x80, false>;
using CodeE2M3 = SmallFloat<2, 3, 1, 0x1F, 0>;
using CodeE3M2 = SmallFloat<3, 2, 3, 0x1F, 0>;
using CodeE2M1 = SmallFloat<2, 1, 1, 0x7, 0>;

// To nearest, ties to even, saturating. Where the format has no NaN its code is what rounding the bits gives.
template <class F>
uint8_t code_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const uint32_t sign = bits & 0x80000000u;
  const uint32_t magnitude = bits ^ sign;
  uint32_t code = (magnitude + ((magnitude >> (23 - F::kMantissa)) & 1) + F::kRebias) >> (23 - F::kMantissa);
  if (magnitude > 0x7F800000u) {
    if (F::kNanCode != 0)
      return static_cast<uint8_t>(F::kNegativeZero ? F::kNanCode | sign >> F::kSignShift : F::kNanCode);
  } else if (magnitude >= F::kLargest) {
    code = F::kLargestCode;
  } else if (magnitude < F::kSmallestNormal) {
    float step;
    float small;
    std::memcpy(&step, &F::kStep, sizeof step);
    std::memcpy(&small, &magnitude, sizeof small);
    small += step;
    std::memcpy(&code, &small, sizeof code);
    code -= F::kStep;
  }
  if (!F::kNegativeZero && (code & 0xFF) == 0) return 0;
  return static_cast<uint8_t>(code | sign >> F::kSignShift);
}

// Calls `f` with the SmallFloat of a float element.
template <class Function>
decltype(auto) with_small_float(QuantElement element, Function&& f) {
  switch (element) {
    case QuantElement::kE5M2: return f(CodeE5M2());
    case QuantElement::kE4M3Fnuz: return f(CodeE4M3Fnuz());
    case QuantElement::kE5M2Fnuz: return f(CodeE5M2Fnuz());
    case QuantElement::kE2M3: return f(CodeE2M3());
    case QuantElement::kE3M2: return f(CodeE3M2());
    case QuantElement::kE2M1: return f(CodeE2M1());
    default: return f(CodeE4M3());
  }
}

inline bool is_integer(QuantElement element) { return element >= QuantElement::kInt8; }

// The smallest and largest integer of an integer element.
struct IntegerRange {
  int lowest;
  int highest;
};
IntegerRange integer_range(QuantElement element);
// 0 for signed integers, half of the range for others.
float middle_of(QuantElement element);

// Numbers from here on would round to beyond the largest code, were there one: half a step further.
float overflow_edge(QuantElement element);

// The values of all bytes; bits above those of the element do not count.
using CodeTable = std::array<float, 256>;
const CodeTable& code_table(QuantElement element);
// Of a byte of two codes: both values, the one in the low half first.
using PairTable = std::array<float, 512>;
const PairTable& pair_table(QuantElement element);

}  // namespace ttap
