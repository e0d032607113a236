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

}  // namespace ttap::cuda
