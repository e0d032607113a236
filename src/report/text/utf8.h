#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ttap {

struct Utf8Character {
  uint32_t code = 0;
  size_t bytes = 1;  // to go on by; 1 where the bytes are not UTF-8
  bool valid = false;
};

// The first character of a text that is not empty; overlong forms, surrogates and what is beyond U+10FFFF are invalid.
Utf8Character decode_utf8(std::string_view text);

}  // namespace ttap
