#include "core/byte_size.h"

#include <charconv>

namespace ttap {

std::optional<uint64_t> parse_byte_size(std::string_view text) {
  constexpr std::string_view kUnits = "KMGT";
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  const size_t which = unit.empty() ? 0 : kUnits.find(static_cast<char>(unit[0] & ~0x20));
  const unsigned shift = unit.empty() ? 0 : static_cast<unsigned>(10 * (which + 1));
  if (error != std::errc{} || unit.size() > 1 || which == std::string_view::npos || number > (UINT64_MAX >> shift))
    return std::nullopt;
  return number << shift;
}

}  // namespace ttap
