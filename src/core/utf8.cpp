#include "core/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace ttap {
namespace {

// Characters that act on the terminal instead of showing: C0 and C1 controls, DEL, line separators, direction marks.
bool acts_on_terminal(uint32_t c) {
  return c < 0x20 || (c >= 0x7F && c < 0xA0) || (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069) ||
         c == 0x200E || c == 0x200F || c == 0xFEFF;
}

std::string escaped(std::string_view text, size_t most) {
  std::string out;
  out.reserve(std::min(text.size(), most));
  while (!text.empty()) {
    if (out.size() >= most) return out + "…";
    const Utf8Character c = decode_utf8(text);
    const std::string_view bytes = text.substr(0, c.bytes);
    if (!c.valid || acts_on_terminal(c.code)) {
      for (char byte : bytes) fmt::format_to(std::back_inserter(out), "%{:02X}", static_cast<unsigned char>(byte));
    } else {
      out += bytes;
    }
    text.remove_prefix(c.bytes);
  }
  return out;
}

}  // namespace

Utf8Character decode_utf8(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(text[i])); };
  const uint32_t first = byte(0);
  if (first < 0x80) return {first, 1, true};
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return {};
  uint32_t code = first & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    code = (code << 6) | (byte(i) & 0x3F);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  if (overlong || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return {};
  return {code, length, true};
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const Utf8Character c = decode_utf8(text);
    if (!c.valid) return false;
    text.remove_prefix(c.bytes);
  }
  return true;
}

std::string printable(std::string_view text) { return escaped(text, SIZE_MAX); }
std::string brief_text(std::string_view text) { return escaped(text, 120); }

}  // namespace ttap
