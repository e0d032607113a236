#pragma once

#include "cuda/kernels/block_lanes.cuh"
#include "cuda/kernels/columns.cuh"
#include "cuda/kernels/source.cuh"
#include "cuda/kernels/warp_sum.cuh"

// What a block does for a tensor: reads its share once, and either leaves a partial result or, being the last, merges
// them all.
namespace ttap::cuda {

// Sums of hash blocks, or of slices of them, that wait to be mixed: 32 for each warp.
inline constexpr uint32_t kSumsKept = 32 * kWarps;

struct HashShared {
  alignas(16) uint32_t keys[kHashKeyCount];
  HashPair sums[kSumsKept];
  HashPair odd[kWarps];
};

struct NoFeed {};

// What the threads found takes the place of what they needed to find it.
template <class Lane, class Feed = NoFeed>
struct BlockShared {
  struct Working {
    HashShared hash;
    typename Lane::Shared lane;
    Feed feed;
  };
  union {
    Working working;
    ThreadRows rows;
  };
  Totals totals;
  double centre;
  bool is_last;
};

// Shared memory is not constructed: whoever reads a part of it has written it.
template <class T>
struct Unconstructed {
  alignas(16) unsigned char bytes[sizeof(T)];
  __device__ T& get() { return *reinterpret_cast<T*>(bytes); }
};

// Read, not made: the time is that of the tensor's own bytes, which are on their way too.
static __device__ const HashKeys kKeyTable = make_hash_keys();

__device__ inline void load_keys(HashShared& shared) {
  constexpr uint32_t kVectors = kHashKeyCount * sizeof(uint32_t) / sizeof(uint4);
  static_assert(kVectors * sizeof(uint4) == sizeof shared.keys && kVectors <= 2 * kBlockThreads);
  const auto* from = reinterpret_cast<const uint4*>(kKeyTable.key);
  auto* to = reinterpret_cast<uint4*>(shared.keys);
  to[threadIdx.x] = __ldg(from + threadIdx.x);
  if (threadIdx.x < kVectors - kBlockThreads)
    to[kBlockThreads + threadIdx.x] = __ldg(from + kBlockThreads + threadIdx.x);
}

__device__ inline uint64_t live_bytes(const DeviceJob& job) {
  int64_t rows = static_cast<int64_t>(job.row_count);
  if (job.rows != nullptr) {
    const int64_t live = job.rows_are_64_bit ? *static_cast<const int64_t*>(job.rows)
                                             : static_cast<int64_t>(*static_cast<const int32_t*>(job.rows));
    rows = live < 0 ? 0 : live < rows ? live : rows;
  }
  return static_cast<uint64_t>(rows) * job.row_bytes;
}

__device__ inline void store_copy(std::byte* copy_to, uint64_t at, const Vector& vector) {
  *reinterpret_cast<uint4*>(copy_to + at) = {vector.word[0], vector.word[1], vector.word[2], vector.word[3]};
}

// Up to a hash block's bytes from `start` on, a vector for each thread. Every thread of the block comes here.
template <class Lane, class Source>
__device__ inline void take_odd_end(const DeviceJob& job, const Source& source, uint64_t start, uint32_t size,
                                    Lane& lane, HashShared& shared) {
  const uint32_t at = threadIdx.x * kVectorBytes;
  const uint32_t valid = at >= size ? 0 : size - at < kVectorBytes ? size - at : kVectorBytes;
  const Vector vector = source.partial(start + at, valid);
  HashPair sums;
  // Zeros up to the next stripe are part of the hash.
  if (at < (size + kHashStripeBytes - 1) / kHashStripeBytes * kHashStripeBytes)
    add_to_hash(vector, shared.keys, threadIdx.x, sums);
  lane.add_odd(vector, valid);
  if (job.copy_to != nullptr) {
#pragma unroll
    for (uint32_t i = 0; i < kVectorBytes; ++i)
      if (i < valid) job.copy_to[start + at + i] = static_cast<std::byte>(vector.word[i / 4] >> (8 * (i % 4)));
  }
  const uint64_t half = warp_sum_halves(sums);
  if (threadIdx.x % 32 == 0) shared.odd[threadIdx.x / 32].a = half;
  if (threadIdx.x % 32 == 16) shared.odd[threadIdx.x / 32].b = half;
}

// After a __syncthreads() that follows take_odd_end(); for one thread.
__device__ inline HashPair digest_of_odd_end(uint64_t start, const HashShared& shared) {
  HashPair sums;
#pragma unroll
  for (uint32_t i = 0; i < kWarps; ++i) {
    sums.a += shared.odd[i].a;
    sums.b += shared.odd[i].b;
  }
  return hash_mix(sums, start / kHashBlockBytes);
}

// ---- the end of a block ----

// The block's ticket, and with it what other blocks wrote before they took theirs; they see what this one wrote.
__device__ inline uint32_t take_ticket(uint32_t* tickets) {
  uint32_t before;
  asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;" : "=r"(before) : "l"(tickets) : "memory");
  return before;
}

// For the first warp, a number for each lane. The host works out what they mean (totals.h).
__device__ inline void publish(const DeviceJob& job, uint64_t bytes, const Totals& totals, double centre) {
  const uint32_t lane = threadIdx.x;
  uint64_t number = bytes;
  if (lane < kColumns) number = reinterpret_cast<const uint64_t*>(&totals)[lane];
  if (lane == kColumns) number = detail::as_bits(centre);
  if (lane == kColumns + 2) number = job.sequence;
  auto* result = reinterpret_cast<uint64_t*>(job.result);
  if (lane < kColumns + 2) result[lane] = number;
  if (!job.is_watched) {  // the end of the kernel is soon enough for all of it
    if (lane == kColumns + 2) result[lane] = number;
    return;
  }
  __syncwarp();
  if (lane == kColumns + 2) asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(result + lane), "l"(number) : "memory");
}
static_assert(offsetof(DeviceResult, centre) == 8 * kColumns && offsetof(DeviceResult, bytes) == 8 * (kColumns + 1) &&
              offsetof(DeviceResult, sequence) == 8 * (kColumns + 2));

// `mine` is what this thread found. The block that comes last adds up what all blocks of the job left, in their order.
template <class Lane, class Shared>
__device__ inline void finish_block(const DeviceJob& job, uint32_t ticket, uint64_t bytes, const LaneSums& mine,
                                    const HashPair& digest, Scratch& scratch, Shared& shared) {
  __syncthreads();  // who still needs what the rows take the place of
  write_rows(mine, digest, shared.rows);
  __syncthreads();
  const bool alone = job.blocks == 1;
  auto* totals = reinterpret_cast<uint64_t*>(&shared.totals);
  uint64_t* columns = &scratch.columns[0][job.first_block];
  add_up<Lane::kHasCentre>(RowsOfThreads{shared.rows}, alone ? totals : columns + (blockIdx.x - job.first_block),
                           alone ? 1 : kMostBlocks);
  __syncthreads();
  if (!alone) {
    if (threadIdx.x == 0) shared.is_last = take_ticket(&scratch.tickets[ticket]) == job.blocks - 1u;
    __syncthreads();
    if (!shared.is_last) return;
    add_up<true>(RowsOfBlocks{columns, job.blocks}, totals, 1);
    __syncthreads();
    if (threadIdx.x == 0) scratch.tickets[ticket] = 0;  // for the next launch
  }
  if (threadIdx.x < 32) publish(job, bytes, shared.totals, Lane::kHasCentre ? shared.centre : 0);
}

// ---- a block's share, two hash blocks at a time ----

// For tensors that are small, or slow to gather: four warps share a hash block, so that every thread has only two
// vectors to wait for. Block number `block` of `blocks` works here.
template <class Lane, class Source>
__device__ inline void work_by_slices(const DeviceJob& job, uint32_t ticket, const Source& source, Scratch& scratch,
                                      BlockShared<Lane>& block_shared) {
  HashShared& shared = block_shared.working.hash;
  constexpr uint32_t kVectors = 2;
  constexpr uint32_t kAtOnce = 2;                    // hash blocks
  constexpr uint32_t kWarpsEach = kWarps / kAtOnce;  // warps of a hash block
  constexpr uint32_t kRoundsKept = 32 / kAtOnce;     // as many as the first warp mixes at once
  static_assert(kRoundsKept * kWarps <= kSumsKept);
  const uint32_t warp = threadIdx.x / 32;
  const uint32_t first_place = warp % kWarpsEach * (32 * kVectors) + threadIdx.x % 32;
  const uint32_t block = blockIdx.x - job.first_block;
  const uint64_t bytes = live_bytes(job);
  const uint64_t whole = bytes / kHashBlockBytes;
  const uint64_t step = uint64_t{job.blocks} * kAtOnce;
  uint64_t round_start = uint64_t{block} * kAtOnce;

  Vector ahead[Source::kRoundsAhead][kVectors] = {};
  const auto load = [&](uint64_t hash_block, Vector(&into)[kVectors]) {
    if (hash_block >= whole) return;
#pragma unroll
    for (uint32_t i = 0; i < kVectors; ++i)
      into[i] = source.vector(hash_block * kHashBlockBytes + (first_place + 32 * i) * kVectorBytes);
  };
  uint64_t mine = round_start + warp / kWarpsEach;
#pragma unroll
  for (uint32_t i = 0; i < Source::kRoundsAhead; ++i) load(mine + i * step, ahead[i]);

  if constexpr (Lane::kHasCentre)
    if (threadIdx.x == 0) block_shared.centre = bytes == 0 ? 0 : Lane::centre_of(job.data);
  Lane lane(block_shared.working.lane, job.dtype);
  load_keys(shared);
  __syncthreads();

  HashPair digests;
  // What the warps summed of the rounds since `kept_from`, for the threads of the first warp to mix.
  uint32_t kept = 0;
  uint64_t kept_from = round_start;
  const auto mix_kept = [&] {
    __syncthreads();
    if (threadIdx.x < kept * kAtOnce) {
      const uint64_t hash_block = kept_from + threadIdx.x / kAtOnce * step + threadIdx.x % kAtOnce;
      if (hash_block < whole) {
        HashPair sums;
        for (uint32_t i = 0; i < kWarpsEach; ++i) {
          const HashPair& slice = shared.sums[threadIdx.x * kWarpsEach + i];
          sums.a += slice.a;
          sums.b += slice.b;
        }
        const HashPair digest = hash_mix(sums, hash_block);
        digests.a += digest.a;
        digests.b += digest.b;
      }
    }
    kept_from += kept * step;
    kept = 0;
  };

  for (; round_start < whole; round_start += step) {
    if (mine < whole) {
      Vector now[kVectors];
#pragma unroll
      for (uint32_t i = 0; i < kVectors; ++i) now[i] = ahead[0][i];
#pragma unroll
      for (uint32_t round = 1; round < Source::kRoundsAhead; ++round)
#pragma unroll
        for (uint32_t i = 0; i < kVectors; ++i) ahead[round - 1][i] = ahead[round][i];
      load(mine + Source::kRoundsAhead * step, ahead[Source::kRoundsAhead - 1]);
      HashPair sums;
#pragma unroll
      for (uint32_t i = 0; i < kVectors; ++i) {
        const uint32_t place = first_place + 32 * i;
        add_to_hash(now[i], shared.keys, place, sums);
        if (job.copy_to != nullptr) store_copy(job.copy_to, mine * kHashBlockBytes + place * kVectorBytes, now[i]);
      }
      lane.add(now);
      const uint64_t half = warp_sum_halves(sums);
      HashPair& slice = shared.sums[kept * kWarps + warp];
      if (threadIdx.x % 32 == 0) slice.a = half;
      if (threadIdx.x % 32 == 16) slice.b = half;
    }
    mine += step;
    if (++kept == kRoundsKept) {
      mix_kept();
      __syncthreads();  // before others take their place
    }
  }
  // The odd end goes to the block whose turn it would be.
  const auto odd_bytes = static_cast<uint32_t>(bytes % kHashBlockBytes);
  const bool has_odd_end = odd_bytes != 0 && whole / kAtOnce % job.blocks == block;
  if (has_odd_end) take_odd_end(job, source, bytes - odd_bytes, odd_bytes, lane, shared);
  mix_kept();
  if (has_odd_end && threadIdx.x == kBlockThreads - 1) {
    const HashPair digest = digest_of_odd_end(bytes - odd_bytes, shared);
    digests.a += digest.a;
    digests.b += digest.b;
  }
  const double centre = Lane::kHasCentre ? block_shared.centre : 0;
  finish_block<Lane>(job, ticket, bytes, lane.finish(centre, has_odd_end), digests, scratch, block_shared);
}

}  // namespace ttap::cuda
