#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ttap {

// The longest ascending subsequence of `values`, as positions.
std::vector<uint32_t> longest_ascent(std::span<const uint32_t> values);

}  // namespace ttap
