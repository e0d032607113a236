#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "analyze/values/number.h"

namespace ttap {

// The elements to look at first when something is wrong.
struct Extremes {
  std::vector<Located> nonfinite = {};  // the first of them, in C order
  uint64_t nonfinite_count = 0;         // all of them
  std::vector<Located> largest = {};    // finite, by magnitude, largest first; of equals the first in C order
};

// At most `limit` of each kind. The view must pass validate().
Extremes worst_elements(const TensorView& view, size_t limit);

// The first NaN or infinity in C order; stops reading there.
std::optional<Located> first_nonfinite(const TensorView& view);

}  // namespace ttap
