#pragma once

#include <algorithm>

#include "cuda/kernels/quant/quant_unit.h"

// What each thread of a launch does. The kernels are these and nothing else, so that the host can play a launch thread
// by thread.
namespace ttap::cuda {

inline constexpr uint32_t kQuantThreads = 256;
inline constexpr int kUnitsPerThread = 4;
inline constexpr uint64_t kMostQuantBlocks = 1u << 20;  // beyond that threads go round again

// Which thread of which block.
struct ThreadPlace {
  uint32_t thread = 0;
  uint32_t block = 0;
  uint32_t blocks = 1;
};

inline uint32_t quant_blocks(uint64_t work, uint64_t per_block) {
  return static_cast<uint32_t>(std::clamp<uint64_t>((work + per_block - 1) / per_block, 1, kMostQuantBlocks));
}

// ---- units ----

inline uint32_t blocks_of_units(const QuantJob& job) {
  return quant_blocks(job.units, kQuantThreads * kUnitsPerThread);
}

// All codes and scales of a thread are on their way before the first is used; what is done slowly comes last.
template <QuantElement ELEMENT, bool PACKED, UnitScales SCALES>
TTAP_HD inline void decode_units(const QuantJob& job, ThreadPlace at) {
  const float global = first_global<SCALES>(job);
  float one_scale = 0, one_zero = 0;
  if (job.one_scale) {
    const UnitScale one = load_scale<SCALES>(job, 0, global);
    one_scale = value_of<SCALES>(job, one);
    one_zero = zero_of<SCALES>(job, one);
  }
  constexpr uint64_t kSpan = kQuantThreads * kUnitsPerThread;
  for (uint64_t first = at.block * kSpan + at.thread; first < job.units; first += at.blocks * kSpan) {
    UnitCodes<PACKED> codes[kUnitsPerThread] = {};
    UnitScale scales[kUnitsPerThread];
    TTAP_UNROLL
    for (int i = 0; i < kUnitsPerThread; ++i) {
      const uint32_t unit = static_cast<uint32_t>(first) + static_cast<uint32_t>(i) * kQuantThreads;
      if (unit >= job.units) continue;
      codes[i] = load_codes<PACKED>(job, unit);
      if (!job.one_scale) scales[i] = load_scale<SCALES>(job, unit, global);
    }
    uint32_t left = 0;
    TTAP_UNROLL
    for (int i = 0; i < kUnitsPerThread; ++i) {
      const uint32_t unit = static_cast<uint32_t>(first) + static_cast<uint32_t>(i) * kQuantThreads;
      if (unit >= job.units) continue;
      const float scale = job.one_scale ? one_scale : value_of<SCALES>(job, scales[i]);
      const float zero = job.one_scale ? one_zero : zero_of<SCALES>(job, scales[i]);
      if (SCALES == UnitScales::kAny) put_low_first(job, codes[i]);
      if (!decode_unit<ELEMENT>(job, unit, codes[i], scale, zero)) left |= 1u << i;
    }
    for (uint32_t unit = static_cast<uint32_t>(first); left != 0; unit += kQuantThreads, left >>= 1) {
      if ((left & 1) == 0) continue;
      const UnitScale again = load_scale<SCALES>(job, unit, global);
      decode_slowly<ELEMENT, PACKED>(job, unit, value_of<SCALES>(job, again), zero_of<SCALES>(job, again));
    }
  }
  // What is left of a matrix that is one row with one scale.
  const uint64_t rest = uint64_t{job.units} * kUnit + at.thread;
  if (at.block == 0 && rest < job.values()) decode_one<ELEMENT, PACKED>(job, rest, one_scale, one_zero);
}

template <QuantElement ELEMENT>
TTAP_HD inline void decode_units_of_columns(const QuantJob& job, ThreadPlace at) {
  for (uint64_t unit = at.block * uint64_t{kQuantThreads} + at.thread; unit < job.units;
       unit += at.blocks * uint64_t{kQuantThreads})
    decode_unit_of_columns<ELEMENT>(job, static_cast<uint32_t>(unit));
}

// Calls f.template operator()<ELEMENT, PACKED, SCALES>() for a job that has units.
template <class Function>
void with_kernel(const QuantJob& job, Function&& f) {
  constexpr UnitScales kAny = UnitScales::kAny;
  const UnitScales scales = unit_scales(job);
  const bool packed = job.packing != QuantPacking::kNone;
  switch (job.element) {
    case QuantElement::kE4M3:
      if (scales == UnitScales::kF32) return f.template operator()<QuantElement::kE4M3, false, UnitScales::kF32>();
      if (scales == UnitScales::kE8M0) return f.template operator()<QuantElement::kE4M3, false, UnitScales::kE8M0>();
      return f.template operator()<QuantElement::kE4M3, false, kAny>();
    case QuantElement::kE2M1:
      if (!packed) return f.template operator()<QuantElement::kE2M1, false, kAny>();
      if (scales == UnitScales::kE8M0) return f.template operator()<QuantElement::kE2M1, true, UnitScales::kE8M0>();
      if (scales == UnitScales::kE4M3) return f.template operator()<QuantElement::kE2M1, true, UnitScales::kE4M3>();
      return f.template operator()<QuantElement::kE2M1, true, kAny>();
    case QuantElement::kE5M2: return f.template operator()<QuantElement::kE5M2, false, kAny>();
    case QuantElement::kE4M3Fnuz: return f.template operator()<QuantElement::kE4M3Fnuz, false, kAny>();
    case QuantElement::kE5M2Fnuz: return f.template operator()<QuantElement::kE5M2Fnuz, false, kAny>();
    case QuantElement::kE2M3: return f.template operator()<QuantElement::kE2M3, false, kAny>();
    case QuantElement::kE3M2: return f.template operator()<QuantElement::kE3M2, false, kAny>();
    case QuantElement::kInt8: return f.template operator()<QuantElement::kInt8, false, kAny>();
    case QuantElement::kUInt8: return f.template operator()<QuantElement::kUInt8, false, kAny>();
    case QuantElement::kInt4:
      return packed ? f.template operator()<QuantElement::kInt4, true, kAny>()
                    : f.template operator()<QuantElement::kInt4, false, kAny>();
    case QuantElement::kUInt4:
      return packed ? f.template operator()<QuantElement::kUInt4, true, kAny>()
                    : f.template operator()<QuantElement::kUInt4, false, kAny>();
  }
}

// ---- value by value ----

inline uint32_t blocks_of_values(const QuantJob& job) { return quant_blocks(job.values(), kQuantThreads); }

template <class T>
TTAP_HD inline void decode_values(const QuantJob& job, ThreadPlace at) {
  for (uint64_t i = at.block * uint64_t{kQuantThreads} + at.thread; i < job.values();
       i += at.blocks * uint64_t{kQuantThreads}) {
    const uint64_t row = job.columns.divide_any(i);
    store(job, i, decoded_at<T>(job, row, i - row * job.columns.by));
  }
}

// ---- transposed ----

// A tile is filled along the rows that are stored and emptied along those of the target, with a barrier after each.
inline constexpr uint32_t kTile = 32;
template <class T>
struct QuantTile {
  T values[kTile][kTile + 1];
};

TTAP_HD inline uint64_t tiles_along(uint64_t length) { return (length + kTile - 1) / kTile; }
TTAP_HD inline uint64_t tiles_of(const QuantJob& job) { return tiles_along(job.rows) * tiles_along(job.columns.by); }
inline uint32_t blocks_of_tiles(const QuantJob& job) { return quant_blocks(tiles_of(job), 1); }

template <class T>
TTAP_HD inline void fill_tile(const QuantJob& job, uint64_t tile, uint32_t thread, QuantTile<T>& to) {
  const uint64_t tiles = tiles_along(job.columns.by);
  const uint64_t top = tile / tiles * kTile, column = tile % tiles * kTile + thread % kTile;
  for (uint32_t i = thread / kTile; i < kTile; i += kQuantThreads / kTile)
    if (top + i < job.rows && column < job.columns.by)
      to.values[i][thread % kTile] = decoded_at<T>(job, top + i, column);
}

template <class T>
TTAP_HD inline void empty_tile(const QuantJob& job, uint64_t tile, uint32_t thread, const QuantTile<T>& from) {
  const uint64_t tiles = tiles_along(job.columns.by);
  const uint64_t row = tile / tiles * kTile + thread % kTile, left = tile % tiles * kTile;
  for (uint32_t i = thread / kTile; i < kTile; i += kQuantThreads / kTile)
    if (row < job.rows && left + i < job.columns.by)
      store(job, (left + i) * job.rows + row, from.values[thread % kTile][i]);
}

}  // namespace ttap::cuda
