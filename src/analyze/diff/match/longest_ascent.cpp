#include "analyze/diff/match/longest_ascent.h"

#include <algorithm>

namespace ttap {

std::vector<uint32_t> longest_ascent(std::span<const uint32_t> values) {
  // `ends[k]` is the last position of the best ascent of length k + 1 so far.
  constexpr uint32_t kNone = 0xFFFFFFFF;
  std::vector<uint32_t> ends, before(values.size(), kNone);
  for (uint32_t i = 0; i < values.size(); ++i) {
    const auto at = std::ranges::lower_bound(ends, values[i], {}, [&](uint32_t end) { return values[end]; });
    if (at != ends.begin()) before[i] = *(at - 1);
    if (at == ends.end()) {
      ends.push_back(i);
    } else {
      *at = i;
    }
  }
  std::vector<uint32_t> ascent;
  for (uint32_t i = ends.empty() ? kNone : ends.back(); i != kNone; i = before[i]) ascent.push_back(i);
  std::ranges::reverse(ascent);
  return ascent;
}

}  // namespace ttap
