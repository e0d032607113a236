#pragma once

#include <cstdint>

namespace ttap {

constexpr uint64_t round_up(uint64_t n, uint64_t step) { return (n + step - 1) / step * step; }

}  // namespace ttap
