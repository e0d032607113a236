#pragma once

#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

namespace ttap {

inline std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

// All of the text as a number, infinity among them; nothing when it is none, or NaN.
inline std::optional<double> parse_number(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || std::isnan(number)) return std::nullopt;
  return number;
}

}  // namespace ttap
