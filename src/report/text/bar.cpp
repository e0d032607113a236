#include "report/text/bar.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace ttap {

std::string bar(double share, size_t width, bool unicode) {
  static constexpr std::array<std::string_view, 8> kEighths = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  if (!unicode)
    return std::string(
        share <= 0 ? 0 : std::max<size_t>(1, static_cast<size_t>(std::lround(share * static_cast<double>(width)))),
        '#');
  const size_t eighths =
      share <= 0 ? 0 : std::max<size_t>(1, static_cast<size_t>(std::lround(share * static_cast<double>(width) * 8)));
  std::string text;
  for (size_t i = 0; i < eighths / 8; ++i) text += "█";
  return text.append(kEighths[eighths % 8]);
}

}  // namespace ttap
