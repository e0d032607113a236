#pragma once

#include <type_traits>

#include "cuda/kernels/lanes/lane_sketch.h"
#include "cuda/kernels/warp_sum.cuh"

// The sketch of what a warp takes: each lane ends up with one bucket.
namespace ttap::cuda {

// Of formats that have none.
struct NoSketch {
  static constexpr bool kIsThere = false;
  struct Lines {
    __device__ Lines(uint64_t, uint32_t) {}
    __device__ Lines after(uint32_t) const { return *this; }
  };
  double bucket = 0;
  __device__ void skip_four_lines() {}
  __device__ void fold(const Lines&) {}
};

template <class F>
struct WarpSketch {
  static constexpr bool kIsThere = true;
  static constexpr uint32_t kValues = LaneSketch<F>::kValues;
  static constexpr uint32_t kLanesEach = 32 / kValues;  // that have the buckets of one value of a vector
  using Cell = typename LaneSketch<F>::Cell;
  using Signs = typename LaneSketch<F>::Signs;

  // Some lines of a unit: from line number `line` of a hash block on.
  struct Lines {
    Signs signs;
    uint32_t flip;

    __device__ Lines(uint64_t block, uint32_t line) : Lines(BlockInUnit<F>(block), line) {}
    // From another line on, of those that are folded together.
    __device__ Signs after(uint32_t lines) const { return signs.after(lines); }

   private:
    __device__ Lines(const BlockInUnit<F>& block, uint32_t line) : Lines(sketch_unit(block.unit), block.line + line) {}
    __device__ Lines(const SketchUnit& unit, uint32_t line)
        : signs(unit.seed, threadIdx.x % 32, line), flip(unit.flip ^ signs.turn) {}
  };

  double bucket = 0;
  LaneSketch<F> unit;  // at hand

  // `lines` count from where `signs` begin, and are known when compiling. COUNTED: some values may be beyond the limit.
  template <bool COUNTED, int N>
  __device__ void add(const Vector (&vectors)[N], const Signs& signs, const uint32_t (&lines)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i)
      unit.template add<COUNTED>(vectors[i], lines[i], LaneSketch<F>::sign_of_line(signs, lines[i]));
  }
  __device__ void skip_four_lines() { unit.skip_four_lines(); }

  // The end of some lines: their cells go to the lanes that have their buckets, half of those that are left at a time.
  __device__ void fold(const Lines& lines) {
    Cell cells[LaneSketch<F>::kCells];
#pragma unroll
    for (uint32_t i = 0; i < LaneSketch<F>::kCells; ++i) {
      cells[i] = unit.signed_cell(i, lines.signs);
      unit.cells[i] = 0;
    }
    if constexpr (kValues == 2) {  // the neighbour's places
#pragma unroll
      for (uint32_t i = 0; i < 2; ++i) cells[i] += __shfl_xor_sync(kAllLanes, cells[i + 2], 1);
    }
#pragma unroll
    for (uint32_t half = kValues / 2, step = 16; half > 0; half /= 2, step /= 2) {
      const bool upper = (threadIdx.x & step) != 0;
#pragma unroll
      for (uint32_t i = 0; i < half; ++i) {
        const Cell kept = upper ? cells[i + half] : cells[i];
        const Cell sent = upper ? cells[i] : cells[i + half];
        cells[i] = kept + __shfl_xor_sync(kAllLanes, sent, static_cast<int>(step));
      }
    }
    const uint32_t from = lines.flip / kValues | lines.flip % kValues * kLanesEach;
    bucket += static_cast<double>(__shfl_xor_sync(kAllLanes, cells[0], static_cast<int>(from)));
  }

  // That this lane has.
  __device__ static uint32_t number() {
    const uint32_t lane = threadIdx.x % 32;
    return lane % kLanesEach * kValues + lane / kLanesEach;
  }
};

}  // namespace ttap::cuda
