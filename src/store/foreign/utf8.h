#pragma once

#include <string>
#include <string_view>

namespace ttap {

// Whether `text` is well-formed UTF-8: no stray, overlong or surrogate sequences.
bool is_utf8(std::string_view text);

// `text` on one line for a message or a note: control characters and bytes that are not UTF-8 become \xNN,
// and what exceeds `limit` bytes is cut and marked with "…".
std::string printable(std::string_view text, size_t limit = 120);

}  // namespace ttap
