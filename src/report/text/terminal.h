#pragma once

#include <cstdint>
#include <string_view>

namespace ttap {

enum class ColorChoice : uint8_t { kAuto, kAlways, kNever };

enum class Style : uint8_t { kPlain, kBold, kDim, kRed, kGreen, kYellow, kCyan };

// The escape sequence that switches a style on.
std::string_view escape_of(Style style);
inline constexpr std::string_view kResetEscape = "\x1b[0m";

// What is at the other end of a file descriptor.
struct Terminal {
  bool is_terminal = false;
  bool color = false;    // `--color`, NO_COLOR and TERM=dumb have been heard
  bool unicode = false;  // bars and dots beyond ASCII may be drawn: a terminal in a UTF-8 locale
  int width = 0;         // columns; 0 means unlimited, as in a pipe

  static Terminal of(int fd, ColorChoice choice);
};

}  // namespace ttap
