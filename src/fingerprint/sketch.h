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
  constexpr size_t kSize = sizeof(typename Format::Bits);
  constexpr uint32_t kValues = kSketchGroupBytes / kSize;
  const SketchUnit unit = sketch_unit(block / 2);
  for (size_t i = 0; i < count; ++i) {
    const double value = Format::value(load_bits<Format>(data, i));
    if (!(std::fabs(value) < kSketchLimit)) continue;
    const auto row = static_cast<uint32_t>(block % 2 * kSketchBlockRows + i * kSize / kSketchRowBytes);
    const auto group = static_cast<uint32_t>(i / kValues % kSketchGroups);
    const uint32_t place = sketch_place<kSize>(static_cast<uint32_t>(i % kValues), row);
    const uint32_t signs = sketch_signs(unit.seed, group);
    const bool minus = ((signs >> row ^ signs >> (16 + place)) & 1) != 0;
    buckets[(group * kValues + place) % kSketchBuckets ^ unit.flip] += minus ? -value : value;
  }
}

}  // namespace ttap
