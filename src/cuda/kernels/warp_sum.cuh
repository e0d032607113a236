#pragma once

#include <cstdint>

#include "cuda/kernels/device_job.h"
#include "fingerprint/hash128.h"

// Warps, and both sums of a hash over the lanes of one.
namespace ttap::cuda {

inline constexpr unsigned kAllLanes = 0xFFFFFFFFu;

// Told so that the compiler sees that it is the same for the whole warp.
__device__ inline uint32_t warp_number() { return __shfl_sync(kAllLanes, threadIdx.x / 32, 0); }

// Barriers of the block besides that of __syncthreads(): to pass by, and to wait for all.
enum class Barrier : uint32_t { kHashSums = 1, kRows = 2 };
template <Barrier BARRIER>
__device__ inline void arrive_at() {
  asm volatile("bar.arrive %0, %1;" ::"n"(static_cast<uint32_t>(BARRIER)), "n"(kBlockThreads) : "memory");
}
template <Barrier BARRIER>
__device__ inline void wait_at() {
  asm volatile("bar.sync %0, %1;" ::"n"(static_cast<uint32_t>(BARRIER)), "n"(kBlockThreads) : "memory");
}

// For every lane, in pieces that an instruction adds up for a whole warp.
__device__ inline uint64_t warp_sum(uint64_t value) {
  constexpr int kBits = 27;  // 32 such numbers fit a word
  constexpr uint32_t kPiece = (1u << kBits) - 1;
  const uint64_t low = __reduce_add_sync(kAllLanes, static_cast<uint32_t>(value) & kPiece);
  const uint64_t middle = __reduce_add_sync(kAllLanes, static_cast<uint32_t>(value >> kBits) & kPiece);
  const uint64_t high = __reduce_add_sync(kAllLanes, static_cast<uint32_t>(value >> (2 * kBits)));
  return low + (middle << kBits) + (high << (2 * kBits));
}
__device__ inline HashPair warp_sum(const HashPair& pair) { return {warp_sum(pair.a), warp_sum(pair.b)}; }

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
