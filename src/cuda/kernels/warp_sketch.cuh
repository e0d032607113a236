#pragma once

#include <type_traits>

#include "cuda/kernels/lanes/lane_sketch.h"
#include "cuda/kernels/warp_sum.cuh"

// The sketch of what a warp takes: each lane ends up with one bucket.
namespace ttap::cuda {

// Of formats that have none.
struct NoSketch {
  static constexpr bool kIsThere = false;
  double bucket = 0;
  __device__ void fold(const SketchUnit&, uint32_t) {}
};

template <class F>
struct WarpSketch {
  static constexpr bool kIsThere = true;
  static constexpr uint32_t kValues = LaneSketch<F>::kValues;
  static constexpr uint32_t kLanesEach = 32 / kValues;  // that have the buckets of one value of a vector
  using Cell = typename LaneSketch<F>::Cell;

  double bucket = 0;
  LaneSketch<F> unit;  // at hand

  // `signs` from the bit of some row on, that of a multiple of 4 or what the vectors were rotated for; `rows` count
  // from there, and are known when compiling. COUNTED: some values may be beyond the limit.
  template <bool COUNTED, int N>
  __device__ void add(const Vector (&vectors)[N], uint32_t signs, const uint32_t (&rows)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) unit.template add<COUNTED>(vectors[i], rows[i], LaneSketch<F>::sign_of(signs, rows[i]));
  }

  // The end of a unit: its cells go to the lanes that have their buckets, half of those that are left at a time.
  __device__ void fold(const SketchUnit& of, uint32_t signs) {
    Cell cells[kValues];
#pragma unroll
    for (uint32_t i = 0; i < kValues; ++i) {
      cells[i] = unit.signed_cell(i, signs);
      unit.cells[i] = 0;
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
    const uint32_t from = of.flip / kValues | of.flip % kValues * kLanesEach;
    bucket += static_cast<double>(__shfl_xor_sync(kAllLanes, cells[0], static_cast<int>(from)));
  }

  // That this lane has.
  __device__ static uint32_t number() {
    const uint32_t lane = threadIdx.x % 32;
    return lane % kLanesEach * kValues + lane / kLanesEach;
  }
};

}  // namespace ttap::cuda
