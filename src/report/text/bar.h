#pragma once

#include <cstddef>
#include <string>

namespace ttap {

// A bar of `share` of `width` columns, in eighths where the terminal can draw them; nothing is drawn only for nothing.
std::string bar(double share, size_t width, bool unicode);

}  // namespace ttap
