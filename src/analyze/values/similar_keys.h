#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "ttap/run.h"

namespace ttap {

// The number of single-byte changes from one text to the other, or anything above `limit` once it is above.
size_t edit_distance(std::string_view a, std::string_view b, size_t limit);

// Keys of the pass that somebody who wrote `text` may have meant, best first: those that contain it (shortest first),
// then those a few letters away.
std::vector<std::string> similar_keys(const Pass& pass, std::string_view text, size_t limit);

}  // namespace ttap
