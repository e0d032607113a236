#pragma once

#include "cuda/kernels/device_job.h"
#include "cuda/kernels/many_parts.h"

// Sums over the lanes of a warp. Every lane gets the result, and it repeats bit for bit.
namespace ttap::cuda {

inline constexpr unsigned kAllLanes = 0xFFFFFFFFu;

template <class T>
__device__ inline T warp_sum(T value) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(kAllLanes, value, step);
  return value;
}

__device__ inline uint64_t warp_sum(uint64_t value) {
  return warp_sum<unsigned long long>(static_cast<unsigned long long>(value));
}

__device__ inline double warp_min(double value) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    const double other = __shfl_xor_sync(kAllLanes, value, step);
    value = other < value ? other : value;
  }
  return value;
}

// Both sums at once, each in half of the lanes: `a` ends up in lane 0, `b` in lane 16.
__device__ inline uint64_t warp_sum_halves(const HashPair& pair) {
  const bool upper = (threadIdx.x & 16) != 0;
  unsigned long long kept = upper ? pair.b : pair.a;
  const unsigned long long sent = upper ? pair.a : pair.b;
  kept += __shfl_xor_sync(kAllLanes, sent, 16);
#pragma unroll
  for (int step = 8; step > 0; step /= 2) kept += __shfl_xor_sync(kAllLanes, kept, step);
  return kept;
}

__device__ inline HashPair warp_sum(const HashPair& pair) {
  const unsigned long long kept = warp_sum_halves(pair);
  return {__shfl_sync(kAllLanes, kept, 0), __shfl_sync(kAllLanes, kept, 16)};
}

// Not inlined, as nothing that comes once at the end of a block: instructions have to be fetched too.
__device__ __noinline__ static void warp_merge(StatsPart& part) {
  // Most tensors have none of these, and lanes agree on that in one instruction.
  if (__any_sync(kAllLanes, (part.nan | part.pos_inf | part.neg_inf | part.subnormals) != 0)) {
    part.nan = warp_sum(part.nan);
    part.pos_inf = warp_sum(part.pos_inf);
    part.neg_inf = warp_sum(part.neg_inf);
    part.subnormals = warp_sum(part.subnormals);
  }
  if (__any_sync(kAllLanes, part.zeros != 0)) part.zeros = warp_sum(part.zeros);
  const uint64_t finite = warp_sum(part.finite);
  if (finite == 0) return;
  const double all = static_cast<double>(finite);
  const double mean = warp_sum(share_of_mean(part, all));
  part.min = warp_min(part.min);
  part.max = -warp_min(-part.max);
  part.min_abs_nonzero = warp_min(part.min_abs_nonzero);
  part.l1 = warp_sum(part.l1);
  Spread spread = spread_around(part, mean);
  spread.distance = warp_sum(spread.distance);
  spread.m2 = warp_sum(spread.m2);
  set_spread(part, mean, spread, all);
  part.finite = finite;
}

__device__ inline void warp_merge(Partial& partial) {
  partial.digest = warp_sum(partial.digest);
  warp_merge(partial.stats);
}

}  // namespace ttap::cuda
