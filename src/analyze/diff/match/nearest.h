#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace ttap {

// Which of several is nearest to a value.
struct Nearest {
  uint32_t index = 0;
  double distance = std::numeric_limits<double>::infinity();
  double next = std::numeric_limits<double>::infinity();

  void add(uint32_t other, double how_far) {
    if (how_far < distance) {
      next = distance;
      distance = how_far;
      index = other;
    } else {
      next = std::min(next, how_far);
    }
  }
};

}  // namespace ttap
