#include "quant/element_codes.h"

#include "core/element.h"

namespace ttap {
namespace {

constexpr size_t kElements = static_cast<size_t>(QuantElement::kUInt4) + 1;

}  // namespace

int bits_of(QuantElement element) {
  switch (element) {
    case QuantElement::kE2M3:
    case QuantElement::kE3M2: return 6;
    case QuantElement::kE2M1:
    case QuantElement::kInt4:
    case QuantElement::kUInt4: return 4;
    default: return 8;
  }
}

float value_of_code(QuantElement element, uint8_t code) {
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

IntegerRange integer_range(QuantElement element) {
  switch (element) {
    case QuantElement::kUInt8: return {0, 255};
    case QuantElement::kInt4: return {-8, 7};
    case QuantElement::kUInt4: return {0, 15};
    default: return {-128, 127};
  }
}

float middle_of(QuantElement element) {
  const IntegerRange range = integer_range(element);
  return static_cast<float>(range.lowest + range.highest + 1) / 2;
}

float largest_value(QuantElement element) {
  if (is_integer(element)) return static_cast<float>(integer_range(element).highest);
  return with_small_float(element, [](auto format) {
    float value;
    std::memcpy(&value, &format.kLargest, sizeof value);
    return value;
  });
}

float overflow_edge(QuantElement element) {
  if (is_integer(element)) return static_cast<float>(integer_range(element).highest) + 0.5F;
  return with_small_float(element, [](auto format) {
    const uint32_t half_a_step_more = format.kLargest + (1u << (22 - format.kMantissa));
    float value;
    std::memcpy(&value, &half_a_step_more, sizeof value);
    return value;
  });
}

const CodeTable& code_table(QuantElement element) {
  static const auto tables = [] {
    std::array<CodeTable, kElements> made;
    for (size_t e = 0; e < kElements; ++e)
      for (size_t code = 0; code < 256; ++code)
        made[e][code] = value_of_code(static_cast<QuantElement>(e), static_cast<uint8_t>(code));
    return made;
  }();
  return tables[static_cast<size_t>(element)];
}

const PairTable& pair_table(QuantElement element) {
  static const auto tables = [] {
    std::array<PairTable, kElements> made;
    for (size_t e = 0; e < kElements; ++e) {
      for (size_t byte = 0; byte < 256; ++byte) {
        made[e][2 * byte] = value_of_code(static_cast<QuantElement>(e), static_cast<uint8_t>(byte & 0xF));
        made[e][2 * byte + 1] = value_of_code(static_cast<QuantElement>(e), static_cast<uint8_t>(byte >> 4));
      }
    }
    return made;
  }();
  return tables[static_cast<size_t>(element)];
}

}  // namespace ttap
