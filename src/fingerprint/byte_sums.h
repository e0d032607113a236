#pragma once

#include <cstddef>
#include <cstdint>

#include "fingerprint/stats_part.h"

// One-byte floats on a CPU with byte tables (AVX-512 VBMI) and dot products of bytes (VNNI): one that has Highway's
// HWY_AVX3_DL, which the caller has made sure of.
namespace ttap {

struct ByteFloatSums {
  // In units of the smallest subnormal (of its square); meaningless if not all values are finite.
  double sum = 0;
  double squares = 0;
  double l1 = 0;
  uint64_t zeros = 0;
  uint64_t subnormals = 0;
  // Of the bytes: the largest unsigned, the largest and the smallest signed, the smallest nonzero magnitude less one.
  uint8_t top = 0, high = 0, low = 0, least = 0;
};

// Of at most a block of values, a multiple of 64 and not none.
ByteFloatSums sums_of_e4m3(const std::byte* data, size_t count);
ByteFloatSums sums_of_e5m2(const std::byte* data, size_t count);
ByteFloatSums sums_of_e5m2fnuz(const std::byte* data, size_t count);

// All statistics of any number of values up to a block; NaN may be among them.
StatsPart stats_of_e8m0(const std::byte* data, size_t count);

}  // namespace ttap
