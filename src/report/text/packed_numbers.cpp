#include "report/text/packed_numbers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace ttap {
namespace {

constexpr double kCodes = 65533;
constexpr uint16_t kNotFinite = 65535;

std::string base64(std::span<const uint8_t> bytes) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const size_t here = std::min<size_t>(3, bytes.size() - at);
    uint32_t three = 0;
    for (size_t i = 0; i < 3; ++i) three = three << 8 | (i < here ? bytes[at + i] : 0u);
    for (size_t i = 0; i < 4; ++i) text += i <= here ? kLetters[three >> (18 - 6 * i) & 63] : '=';
  }
  return text;
}

template <class Float>
void write(JsonWriter& json, std::span<const Float> numbers) {
  double low = std::numeric_limits<double>::infinity();
  double high = 0;
  for (const double number : numbers) {
    if (!std::isfinite(number) || number <= 0) continue;
    low = std::min(low, number);
    high = std::max(high, number);
  }
  if (high == 0) low = 0;
  const double scale = low < high ? kCodes / (std::log(high) - std::log(low)) : 0;
  std::vector<uint8_t> bytes;
  bytes.reserve(2 * numbers.size());
  for (const double number : numbers) {
    uint16_t code = 0;
    if (!std::isfinite(number)) {
      code = kNotFinite;
    } else if (number > 0) {
      code = static_cast<uint16_t>(1 + std::lround(scale * (std::log(number) - std::log(low))));
    }
    bytes.push_back(static_cast<uint8_t>(code & 255));
    bytes.push_back(static_cast<uint8_t>(code >> 8));
  }
  json.begin_line().member("low", low).member("high", high).member("base64", std::string_view(base64(bytes))).end();
}

}  // namespace

void write_packed(JsonWriter& json, std::span<const float> numbers) { write(json, numbers); }
void write_packed(JsonWriter& json, std::span<const double> numbers) { write(json, numbers); }

}  // namespace ttap
