#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "analyze/compare/quant_picture.h"

namespace ttap {
namespace {

int mantissa_bits(QuantElement element) {
  switch (element) {
    case QuantElement::kE4M3:
    case QuantElement::kE4M3Fnuz:
    case QuantElement::kE2M3: return 3;
    case QuantElement::kE5M2:
    case QuantElement::kE5M2Fnuz:
    case QuantElement::kE3M2: return 2;
    case QuantElement::kE2M1: return 1;
    default: return 0;
  }
}

struct Code {
  uint8_t code = 0;
  float value = 0;
  uint64_t count = 0;
};

std::string name_of(uint8_t first, uint8_t last, int bits) {
  const int digits = bits > 4 ? 2 : 1;
  if (first == last) return fmt::format("0x{:0{}x}", first, digits);
  return fmt::format("0x{:0{}x}-0x{:0{}x}", first, digits, last, digits);
}

// `width` codes to a bin, in the order of their values; -0 before 0.
std::vector<CodeBin> by_value(std::vector<Code> codes, size_t width, int bits) {
  std::ranges::sort(codes, [](const Code& a, const Code& b) {
    return a.value != b.value ? a.value < b.value : std::signbit(a.value) && !std::signbit(b.value);
  });
  std::vector<CodeBin> bins;
  for (size_t i = 0; i < codes.size(); i += width) {
    const Code& last = codes[std::min(i + width, codes.size()) - 1];
    CodeBin bin{codes[i].value, last.value, 0, name_of(codes[i].code, last.code, bits)};
    for (size_t k = i; k < std::min(i + width, codes.size()); ++k) bin.count += codes[k].count;
    bins.push_back(std::move(bin));
  }
  return bins;
}

// Zero, then what has the same exponent, both signs together, then what is not finite.
std::vector<CodeBin> by_exponent(const std::vector<Code>& codes, int bits, int mantissa) {
  const auto sign = static_cast<uint8_t>(1 << (bits - 1));
  enum : int { kZero = -1, kInfinite = 1000, kNan = 1001 };
  std::map<int, std::vector<Code>> groups;
  for (const Code& code : codes) {
    const int exponent = (code.code & (sign - 1)) >> mantissa;
    const int group = std::isnan(code.value)   ? kNan
                      : std::isinf(code.value) ? kInfinite
                      : code.value == 0        ? kZero
                                               : exponent;
    groups[group].push_back(code);
  }
  std::vector<CodeBin> bins;
  for (const auto& [group, members] : groups) {
    CodeBin bin{std::fabs(members.front().value), std::fabs(members.front().value), 0, ""};
    uint8_t first = 0xFF;
    uint8_t last = 0;
    for (const Code& code : members) {
      bin.count += code.count;
      bin.low = std::min(bin.low, std::fabs(code.value));
      bin.high = std::max(bin.high, std::fabs(code.value));
      // The other half of the codes says the same with a sign; but a format without -0 has its NaN there.
      if ((code.code & sign) != 0 && members.size() > 1) continue;
      first = std::min(first, code.code);
      last = std::max(last, code.code);
    }
    bin.codes = name_of(first, last, bits);
    bins.push_back(std::move(bin));
  }
  return bins;
}

}  // namespace

std::vector<CodeBin> code_bins(QuantElement element, const std::vector<uint64_t>& counts) {
  std::vector<Code> codes;
  for (size_t i = 0; i < counts.size(); ++i) {
    const auto code = static_cast<uint8_t>(i);
    codes.push_back({code, value_of_code(element, code), counts[i]});
  }
  const int bits = bits_of(element);
  const int mantissa = mantissa_bits(element);
  if (bits == 4) return by_value(std::move(codes), 1, bits);
  if (mantissa == 0) return by_value(std::move(codes), 16, bits);
  return by_exponent(codes, bits, mantissa);
}

}  // namespace ttap
