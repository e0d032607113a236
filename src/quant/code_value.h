#pragma once

#include "core/element.h"
#include "ttap/quant.h"

// What one code and one scale mean, as plain arithmetic that CPU and GPU share.
namespace ttap {

TTAP_HD inline int code_bits(QuantElement element) {
  switch (element) {
    case QuantElement::kE2M3:
    case QuantElement::kE3M2: return 6;
    case QuantElement::kE2M1:
    case QuantElement::kInt4:
    case QuantElement::kUInt4: return 4;
    default: return 8;
  }
}

// Bits above those of the element do not count.
TTAP_HD inline float code_value(QuantElement element, uint8_t code) {
  switch (element) {
    case QuantElement::kE4M3: return f32_of_e4m3fn(code);
    case QuantElement::kE5M2: return f32_of_e5m2(code);
    case QuantElement::kE4M3Fnuz: return f32_of_e4m3fnuz(code);
    case QuantElement::kE5M2Fnuz: return f32_of_e5m2fnuz(code);
    case QuantElement::kE2M3: return f32_of_small<2, 3, 1>(code & 0x3F);
    case QuantElement::kE3M2: return f32_of_small<3, 2, 3>(code & 0x3F);
    case QuantElement::kE2M1: return f32_of_e2m1fn(code);
    case QuantElement::kInt8: return static_cast<int8_t>(code);
    case QuantElement::kUInt8: return code;
    case QuantElement::kInt4: return static_cast<float>((code & 0xF) - ((code & 0x8) != 0 ? 16 : 0));
    case QuantElement::kUInt4: return static_cast<float>(code & 0xF);
  }
  return 0;
}

// Which NaN comes of an operation depends on the processor, and of two of them on the compiler. Decoded values have one
// NaN, so that their bits, and a hash of these, are the same everywhere.
TTAP_HD inline float with_one_nan(float value) { return value == value ? value : detail::quiet_nan(); }
TTAP_HD inline double with_one_nan(double value) { return value == value ? value : detail::quiet_nan_wide(); }

// The scale of a block taken with the global one. `per_largest` is one by what GlobalScale::kAmax is for.
template <class T>
TTAP_HD inline T with_global(GlobalScale kind, T own, T global, T per_largest) {
  if (kind == GlobalScale::kNone) return own;
  if (kind == GlobalScale::kFactor) return global * own;
  return kind == GlobalScale::kDivisor ? own / global : own * global * per_largest;
}

}  // namespace ttap
