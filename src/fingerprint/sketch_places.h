#pragma once

#include <cstddef>
#include <cstdint>

#include "fingerprint/hash128.h"
#include "ttap/api.h"
#include "ttap/fingerprint.h"

// The sketch as docs/fingerprint.md defines it, in plain arithmetic that CPU and GPU share: which bucket a value is
// added to, and with which sign. Both follow from the number of the value in its tensor, whatever the dtype.
//
// Values are cut into units of 16 rows of 32 groups of 8. The kernels read memory by lines of 32 vectors of 16 bytes: a
// row is one line of a 16-bit dtype, two of a 32-bit one and four of a 64-bit one.
namespace ttap {

inline constexpr uint32_t kSketchGroupValues = 8;
inline constexpr uint32_t kSketchGroups = 32;  // of a row
inline constexpr uint32_t kSketchRows = 16;    // of a unit
inline constexpr uint32_t kSketchUnitValues = kSketchRows * kSketchGroups * kSketchGroupValues;

inline constexpr size_t kSketchVectorBytes = 16;
inline constexpr uint32_t kSketchLineVectors = 32;
inline constexpr size_t kSketchLineBytes = kSketchLineVectors * kSketchVectorBytes;
inline constexpr uint32_t kSketchBlockLines = kHashBlockBytes / kSketchLineBytes;

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

// A value has the product of two signs: of its row, bit 2 * row + group / 16 of row_signs(), and of its place, that bit
// of place_signs().
TTAP_HD constexpr uint32_t row_signs(uint32_t seed, uint32_t group) { return mix32(seed + group % 16 * 0x9E3779B9u); }
TTAP_HD constexpr uint32_t place_signs(uint32_t seed, uint32_t group) {
  return mix32(seed + (16 + group % 8) * 0x9E3779B9u) & 0xFF;
}
// What the number of a value in its group is XORed with to be its place, so that a column of a matrix is not all in one
// bucket.
TTAP_HD constexpr uint32_t sketch_turn(uint32_t row) { return (row & 1) * 2 | (row >> 3 & 1) * 4; }

// The signs of places that are XORed with `turn`.
TTAP_HD constexpr uint32_t turned_signs(uint32_t signs, uint32_t turn) {
  if ((turn & 2) != 0) signs = (signs >> 2 & 0x33) | (signs & 0x33) << 2;
  if ((turn & 4) != 0) signs = signs >> 4 | (signs & 0x0F) << 4;
  return signs;
}

// The signs of vector number `vector` in line number `line` of a unit and in the lines that follow. VALUES: of a vector,
// 8, 4 or 2. A kernel that takes n lines together begins with a multiple of n, so that `turn` holds for all of them.
template <uint32_t VALUES>
struct VectorSigns {
  static constexpr uint32_t kWords = VALUES == 2 ? 2 : 1;
  static constexpr uint32_t kStride = VALUES == 8 ? 2 : 1;  // of a line's bits
  uint32_t of_lines[kWords];
  uint32_t of_places;
  uint32_t turn;  // of the first line, without what the vector's own number adds to it

  TTAP_HD constexpr VectorSigns(uint32_t seed, uint32_t vector, uint32_t line) : of_lines{}, of_places(0), turn(0) {
    constexpr uint32_t kVectorsOfGroup = kSketchGroupValues / VALUES;  // also the lines of a row
    const uint32_t group = vector / kVectorsOfGroup;
    if constexpr (VALUES == 8) {
      of_lines[0] = row_signs(seed, group) >> (2 * line + group / 16);
    } else if constexpr (VALUES == 4) {
      of_lines[0] = row_signs(seed, group) >> line;
    } else {
      for (uint32_t i = 0; i < 2; ++i) of_lines[i] = row_signs(seed, group + (line + i) % 2 * 8) >> line / 2;
    }
    turn = sketch_turn(line / kVectorsOfGroup);
    of_places = turned_signs(place_signs(seed, group), turn ^ vector % kVectorsOfGroup * VALUES);
  }
  // From another line on.
  TTAP_HD constexpr VectorSigns after(uint32_t lines) const {
    VectorSigns later = *this;
    for (uint32_t& word : later.of_lines) word >>= VALUES == 2 ? lines / 2 : kStride * lines;
    return later;
  }
  // Whose bit `line_bit(line)` is the sign of a line, counted from the first.
  TTAP_HD constexpr uint32_t line_word(uint32_t line) const { return of_lines[kWords == 2 ? line % 2 : 0]; }
  TTAP_HD static constexpr uint32_t line_bit(uint32_t line) { return VALUES == 2 ? line / 2 : kStride * line; }
};

// Where value number `i` of a vector comes to lie in a line, counted from one whose turn is known. With VALUES 2 a
// vector has places in its own half of four and in that of its neighbour.
template <uint32_t VALUES>
TTAP_HD constexpr uint32_t place_in_vector(uint32_t i, uint32_t line) {
  return i ^ sketch_turn(line / (kSketchGroupValues / VALUES));
}

}  // namespace ttap
