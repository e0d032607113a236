#pragma once

#include <cstdint>

#include "cuda/kernels/lanes/compiler.h"
#include "ttap/api.h"

namespace ttap::cuda {

// For numbers of 2^31 and more.
TTAP_APART TTAP_HD inline uint64_t divide_large(uint64_t number, uint64_t by) { return number / by; }

// Division by a number that is known beforehand: by a multiplication where both are below 2^31.
struct Divisor {
  uint64_t by = 1;
  uint32_t multiplier = 0x80000000u;
  uint32_t shift = 0;

  TTAP_HD uint32_t divide(uint32_t number) const {
    return static_cast<uint32_t>((uint64_t{2 * number} * multiplier) >> 32) >> shift;
  }
  TTAP_HD uint64_t divide_any(uint64_t number) const {
    if (((number | by) >> 31) == 0) return divide(static_cast<uint32_t>(number));
    return divide_large(number, by);
  }
};

inline Divisor divisor(uint64_t by) {
  Divisor made{.by = by};
  if (by == 0 || (by >> 31) != 0) return made;
  while ((uint64_t{1} << made.shift) < by) ++made.shift;
  made.multiplier = static_cast<uint32_t>(((uint64_t{1} << (31 + made.shift)) + by - 1) / by);
  return made;
}

}  // namespace ttap::cuda
