#pragma once

#include <cstddef>
#include <cstdint>

#include "fingerprint/hash128.h"
#include "ttap/api.h"
#include "ttap/fingerprint.h"

// The sketch as docs/fingerprint.md defines it, in plain arithmetic that CPU and GPU share: which bucket a value is
// added to, and with which sign. Both follow from its place alone.
//
// Bytes are cut into units of 16 rows of 32 groups of 16 bytes, the vector that a GPU's lane loads. The 4-byte words of
// a group (8-byte ones of f64) are rotated by the number of the row, so that a column of a matrix does not stay in one
// bucket; the position of a value in its row after that, modulo 32, is the bucket, which each unit XORs with a number
// of its own.
namespace ttap {

inline constexpr size_t kSketchGroupBytes = 16;
inline constexpr uint32_t kSketchGroups = 32;  // of a row
inline constexpr size_t kSketchRowBytes = kSketchGroups * kSketchGroupBytes;
inline constexpr uint32_t kSketchBlockRows = kHashBlockBytes / kSketchRowBytes;  // two hash blocks are a unit
inline constexpr uint32_t kSketchUnitRows = 2 * kSketchBlockRows;
// Values that are not finite, or that stand for "nothing" (the lowest float in a mask), count as zero.
inline constexpr double kSketchLimit = 0x1p64;

// A bijection of 32 bits (MurmurHash3's finalizer).
TTAP_HD constexpr uint32_t mix32(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x85EBCA6Bu;
  x = (x ^ (x >> 13)) * 0xC2B2AE35u;
  return x ^ (x >> 16);
}

struct SketchUnit {
  uint32_t seed;
  uint32_t flip;  // of the bucket's bits
};
TTAP_HD constexpr SketchUnit sketch_unit(uint64_t number) {
  const uint32_t seed = mix32(static_cast<uint32_t>(number) + static_cast<uint32_t>(number >> 32) * 0x85EBCA6Bu + 1);
  return {seed, seed * 0x9E3779B9u >> 27};
}

// The signs of a group: bit i is that of row i, bit 16 + c that of the value at place c after the rotation. A value has
// the product of the two.
TTAP_HD constexpr uint32_t sketch_signs(uint32_t seed, uint32_t group) { return mix32(seed + group * 0x9E3779B9u); }

// Where value number `i` of a group in row `row` is after the rotation. VALUE_BYTES: 2, 4 or 8.
template <size_t VALUE_BYTES>
TTAP_HD constexpr uint32_t sketch_place(uint32_t i, uint32_t row) {
  constexpr uint32_t kValues = kSketchGroupBytes / VALUE_BYTES;
  constexpr uint32_t kWord = VALUE_BYTES < 4 ? 4 / VALUE_BYTES : 1;  // values that are rotated together
  return (i - kWord * row) % kValues;
}

}  // namespace ttap
