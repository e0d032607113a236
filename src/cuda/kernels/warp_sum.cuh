#pragma once

#include "cuda/kernels/columns.cuh"
#include "fingerprint/hash128.h"

// Both sums of a hash over the lanes of a warp.
namespace ttap::cuda {

// Both at once, each in half of the lanes: `a` ends up in lane 0, `b` in lane 16.
__device__ inline uint64_t warp_sum_halves(const HashPair& pair) {
  const bool upper = (threadIdx.x & 16) != 0;
  unsigned long long kept = upper ? pair.b : pair.a;
  const unsigned long long sent = upper ? pair.a : pair.b;
  kept += __shfl_xor_sync(kAllLanes, sent, 16);
#pragma unroll
  for (int step = 8; step > 0; step /= 2) kept += __shfl_xor_sync(kAllLanes, kept, step);
  return kept;
}

// Those of two at once, each in a quarter of the lanes: `first` in lanes 0 and 8, `second` in lanes 16 and 24.
__device__ inline uint64_t warp_sum_quarters(const HashPair& first, const HashPair& second) {
  const bool upper = (threadIdx.x & 16) != 0;
  HashPair kept = upper ? second : first;
  const HashPair sent = upper ? first : second;
  kept.a += __shfl_xor_sync(kAllLanes, static_cast<unsigned long long>(sent.a), 16);
  kept.b += __shfl_xor_sync(kAllLanes, static_cast<unsigned long long>(sent.b), 16);
  const bool odd = (threadIdx.x & 8) != 0;
  unsigned long long sum = odd ? kept.b : kept.a;
  const unsigned long long other = odd ? kept.a : kept.b;
  sum += __shfl_xor_sync(kAllLanes, other, 8);
#pragma unroll
  for (int step = 4; step > 0; step /= 2) sum += __shfl_xor_sync(kAllLanes, sum, step);
  return sum;
}

}  // namespace ttap::cuda
