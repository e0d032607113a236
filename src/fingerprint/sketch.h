#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "fingerprint/real_format.h"
#include "fingerprint/sketch_places.h"

namespace ttap {

// Leaves zeros in the place of values that do not count.
void clear_beyond_limit(std::byte* data, size_t size, DType dtype);

// Adds `count` values from the beginning of hash block number `block`, one by one.
template <class Format>
void add_to_sketch(const std::byte* data, size_t count, uint64_t block, double* buckets) {
  const uint64_t first = block * (kHashBlockBytes / sizeof(typename Format::Bits));
  const SketchUnit unit = sketch_unit(first / kSketchUnitValues);
  for (size_t i = 0; i < count; ++i) {
    const double value = Format::value(load_bits<Format>(data, i));
    if (!(std::fabs(value) < kSketchLimit)) continue;
    const auto number = static_cast<uint32_t>((first + i) % kSketchUnitValues);
    const uint32_t group = number / kSketchGroupValues % kSketchGroups;
    const uint32_t row = number / (kSketchGroupValues * kSketchGroups);
    const uint32_t place = number % kSketchGroupValues ^ sketch_turn(row);
    const uint32_t of_row = row_signs(unit.seed, group) >> (2 * row + group / 16);
    const bool minus = ((of_row ^ place_signs(unit.seed, group) >> place) & 1) != 0;
    buckets[(group * kSketchGroupValues + place) % kSketchBuckets ^ unit.flip] += minus ? -value : value;
  }
}

}  // namespace ttap
