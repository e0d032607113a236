#pragma once

#include <cstdint>

#include "ttap/api.h"

namespace ttap {

// A bijection of 64 bits in which every input bit reaches every output bit (Stafford's variant 13).
TTAP_HD constexpr uint64_t mix64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

}  // namespace ttap
