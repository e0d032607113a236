#pragma once

#include "cuda/kernels/device_result.h"

// The digests that a kernel would have left for a hash: to_fingerprint() makes it of them.
namespace ttap::test {

inline uint64_t inverse_of(uint64_t odd) {
  uint64_t inverse = odd;  // right in the lowest three bits, and in twice as many after each step
  for (int step = 0; step < 5; ++step) inverse *= 2 - odd * inverse;
  return inverse;
}

inline uint64_t unmixed(uint64_t x) {
  x = x ^ (x >> 31) ^ (x >> 62);
  x *= inverse_of(0x94D049BB133111EBu);
  x = x ^ (x >> 27) ^ (x >> 54);
  x *= inverse_of(0xBF58476D1CE4E5B9u);
  return x ^ (x >> 30) ^ (x >> 60);
}

inline HashPair digests_of(const Hash128& hash, uint64_t bytes) {
  const uint64_t odd = 2 * bytes + 1;
  const uint64_t x = unmixed(hash.low) - hash.high;
  return {unmixed(x) - kHashGolden * odd, unmixed(hash.high) - kHashPlastic * odd - x};
}

}  // namespace ttap::test
