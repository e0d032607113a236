#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ttap {

struct Utf8Character {
  uint32_t code = 0;
  size_t bytes = 1;  // to go on by; 1 where the bytes are not UTF-8
  bool valid = false;
};

// The first character of a text that is not empty; overlong forms, surrogates and what is beyond U+10FFFF are invalid.
Utf8Character decode_utf8(std::string_view text);

bool is_utf8(std::string_view text);

// `text` with everything that could move a cursor or break a line (control characters, bytes that are not UTF-8,
// direction marks) as %XX, which `ttap show` reads back.
std::string printable(std::string_view text);
// The same for a message, cut after 120 bytes.
std::string brief_text(std::string_view text);

}  // namespace ttap
