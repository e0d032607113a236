#pragma once

#include <cstdint>

#include "cuda/kernels/lanes/compiler.h"
#include "fingerprint/hash128.h"
#include "ttap/api.h"

namespace ttap::cuda {

// What a lane loads at once.
struct alignas(16) Vector {
  uint32_t word[4];
};
inline constexpr uint32_t kVectorBytes = sizeof(Vector);
inline constexpr uint32_t kVectorsPerHashBlock = kHashBlockBytes / kVectorBytes;

// Adds a vector to a hash block's two sums, by the keys of its place.
TTAP_HD inline void add_to_hash(const Vector& vector, const Vector& first, const Vector& second, HashPair& sums) {
  sums.a += hash_word(vector.word[0], vector.word[1], first.word, 0);
  sums.a += hash_word(vector.word[2], vector.word[3], first.word, 1);
  sums.b += hash_word(vector.word[0], vector.word[1], second.word, 0);
  sums.b += hash_word(vector.word[2], vector.word[3], second.word, 1);
}

// Adds vector number `place` of a hash block to the block's two sums. `keys` is the whole table, on a multiple of 16.
TTAP_HD inline void add_to_hash(const Vector& vector, const uint32_t* keys, uint32_t place, HashPair& sums) {
  const Vector first = *reinterpret_cast<const Vector*>(keys + 4 * place);
  const Vector second = *reinterpret_cast<const Vector*>(keys + 4 * place + kHashKeyShift);
  add_to_hash(vector, first, second, sums);
}

}  // namespace ttap::cuda
