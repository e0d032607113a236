#pragma once

#include <cstddef>
#include <cstdint>

#include "core/mix64.h"
#include "ttap/api.h"

// hash128 as docs/fingerprint.md defines it, in plain arithmetic that CPU and GPU share. The vector code elsewhere is
// a faster way to the same sums.
namespace ttap {

inline constexpr size_t kHashBlockBytes = 4096;
inline constexpr size_t kHashStripeBytes = 64;
inline constexpr uint32_t kHashBlockWords = kHashBlockBytes / 8;
// One stripe more than a block: the second sum uses the same keys, one stripe further on.
inline constexpr uint32_t kHashKeyShift = kHashStripeBytes / 4;
inline constexpr uint32_t kHashKeyCount = kHashBlockBytes / 4 + kHashKeyShift;

inline constexpr uint64_t kHashGolden = 0x9E3779B97F4A7C15u;   // odd; 2^64 / golden ratio
inline constexpr uint64_t kHashPlastic = 0xC13FA9A902A6328Fu;  // odd; 2^64 / plastic number

// Key i: keys 2k and 2k + 1 are the low and high half of splitmix64's output number k from state 0.
TTAP_HD constexpr uint32_t hash_key(uint32_t i) {
  const uint64_t pair = mix64((static_cast<uint64_t>(i / 2) + 1) * kHashGolden);
  return static_cast<uint32_t>(i % 2 == 0 ? pair : pair >> 32);
}

struct alignas(64) HashKeys {
  uint32_t key[kHashKeyCount];
};

constexpr HashKeys make_hash_keys() {
  HashKeys keys{};
  for (uint32_t i = 0; i < kHashKeyCount; ++i) keys.key[i] = hash_key(i);
  return keys;
}

inline constexpr HashKeys kHashKeys = make_hash_keys();

struct HashPair {
  uint64_t a = 0;
  uint64_t b = 0;
};

// What word j of a block (low and high half) adds to one of the two sums; `keys` is the table, for the second sum
// advanced by kHashKeyShift.
TTAP_HD constexpr uint64_t hash_word(uint32_t low, uint32_t high, const uint32_t* keys, uint32_t j) {
  return static_cast<uint64_t>(static_cast<uint32_t>(low + keys[2 * j])) *
         static_cast<uint64_t>(static_cast<uint32_t>(high + keys[2 * j + 1]));
}

// A bijection of 128 bits for each `index`: turns the sums of block number `index` into its digest, and the sum of all
// digests with the length into the hash.
TTAP_HD constexpr HashPair hash_mix(HashPair sums, uint64_t index) {
  const uint64_t odd = 2 * index + 1;
  uint64_t x = mix64(sums.a + kHashGolden * odd);
  const uint64_t y = mix64(sums.b + kHashPlastic * odd + x);
  x = mix64(x + y);
  return {x, y};
}

}  // namespace ttap
