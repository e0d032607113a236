#include "quant/element_codes.h"

#include "quant/code_value.h"

namespace ttap {
namespace {

constexpr size_t kElements = static_cast<size_t>(QuantElement::kUInt4) + 1;

}  // namespace

int bits_of(QuantElement element) { return code_bits(element); }
float value_of_code(QuantElement element, uint8_t code) { return code_value(element, code); }

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
