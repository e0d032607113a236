#pragma once

#include "cuda/kernels/block_work.cuh"

// A block's share of a tensor that is small, or slow to gather: four warps share a hash block, so that every thread has
// only two vectors to wait for.
namespace ttap::cuda {

template <class Lane>
struct SlicesShared {
  HashShared hash;
  typename Lane::Shared lane;
  ThreadRows rows;
  SketchRows sketches, of_tensor;
};

namespace slices {

inline constexpr uint32_t kVectors = 2;                   // of each thread, in a round
inline constexpr uint32_t kAtOnce = 2;                    // hash blocks of a round
inline constexpr uint32_t kWarpsEach = kWarps / kAtOnce;  // of a hash block
inline constexpr uint32_t kRoundsKept = 32 / kAtOnce;     // as many as a warp mixes at once
static_assert(kRoundsKept * kWarps <= kSumsKept);
static_assert(kSliceRoundBytes == kAtOnce * kHashBlockBytes);

// Rounds whose sums wait to be mixed.
struct Kept {
  uint32_t count = 0;
  uint64_t from;  // hash block
  uint64_t step;
  uint64_t end;  // of the hash blocks
};
// For the lanes of a warp, each of which adds up its own digests.
__device__ inline HashPair mixed(const HashShared& shared, HashPair digests, const Kept& kept) {
  const uint32_t in_warp = threadIdx.x % 32;
  const uint64_t hash_block = kept.from + in_warp / kAtOnce * kept.step + in_warp % kAtOnce;
  if (in_warp >= kept.count * kAtOnce || hash_block >= kept.end) return digests;
  HashPair sums;
  for (uint32_t i = 0; i < kWarpsEach; ++i) {
    const HashPair& slice = shared.sums[in_warp * kWarpsEach + i];
    sums.a += slice.a;
    sums.b += slice.b;
  }
  const HashPair digest = hash_mix(sums, hash_block);
  return {digests.a + digest.a, digests.b + digest.b};
}

// What few tensors need, out of line. Not for the loops of large tensors: where there are calls, the compiler does not
// see any more that the lanes of a warp are together.
__device__ TTAP_APART inline HashPair mixed_apart(const HashShared& shared, const HashPair& digests, const Kept& kept) {
  return mixed(shared, digests, kept);
}
__device__ TTAP_APART inline uint64_t bytes_of_live_rows(const DeviceJob& job) { return live_bytes(job); }
template <class Lane, class Source>
__device__ TTAP_APART OddEnd odd_end_apart(const DeviceJob& job, const Source& source, uint64_t start, uint32_t size,
                                           double centre, HashShared& shared) {
  return take_odd_end<Lane>(job, source, start, size, centre, shared);
}
__device__ TTAP_APART inline HashPair digest_of_odd_end_apart(uint64_t start, const HashShared& shared) {
  return digest_of_odd_end(start, shared);
}

}  // namespace slices

// ONE_ROUND: every block has one, so that nothing is repeated and each instruction is fetched for a purpose.
template <class Lane, bool ONE_ROUND, class Source>
__device__ inline void work_by_slices(const DeviceJob& job, const Source& source, Scratch& scratch,
                                      SlicesShared<Lane>& block_shared) {
  using namespace slices;
  constexpr uint32_t kRoundsAhead = ONE_ROUND ? 1 : Source::kRoundsAhead;
  // Of so few values as a round has, the sums of a block are good enough without.
  constexpr bool kHasRests = Lane::kHasRests || !ONE_ROUND;
  HashShared& shared = block_shared.hash;
  const uint32_t warp = warp_number();
  const uint32_t first_place = warp % kWarpsEach * (32 * kVectors) + threadIdx.x % 32;
  const uint32_t block = blockIdx.x - job.first_block;
  const uint64_t step = uint64_t{job.blocks} * kAtOnce;
  uint64_t round_start = uint64_t{block} * kAtOnce;

  Vector ahead[kRoundsAhead][kVectors] = {};
  // Of all there is in memory: what is live is not known yet when the first are loaded.
  const auto load = [&](uint64_t hash_block, Vector(&into)[kVectors]) {
    if (hash_block >= job.bytes / kHashBlockBytes) return;
    source.load(hash_block * kHashBlockBytes + first_place * kVectorBytes, 32 * kVectorBytes, into);
  };
  uint64_t mine = round_start + warp / kWarpsEach;
#pragma unroll
  for (uint32_t i = 0; i < kRoundsAhead; ++i) load(mine + i * step, ahead[i]);
  load_keys(shared);

  double centre = 0;
  if constexpr (Lane::kHasCentre) centre = centre_of<Lane>(job, source);
  const uint64_t bytes = job.rows == nullptr ? job.bytes : bytes_of_live_rows(job);
  const uint64_t whole = bytes / kHashBlockBytes;
  Lane lane(block_shared.lane, job.dtype, centre);
  __syncthreads();

  // What the warps summed waits for the lanes of one to mix it.
  HashPair digests;
  Kept kept{.from = round_start, .step = step, .end = whole};
  const auto take = [&](Vector(&now)[kVectors]) {
    HashPair sums;
#pragma unroll
    for (uint32_t i = 0; i < kVectors; ++i) add_to_hash(now[i], shared.keys, first_place + 32 * i, sums);
    if (job.copy_to != nullptr) {
#pragma unroll
      for (uint32_t i = 0; i < kVectors; ++i)
        store_copy(job.copy_to, mine * kHashBlockBytes + (first_place + 32 * i) * kVectorBytes, now[i]);
    }
    static_assert(kVectors == 2 && kAtOnce == 2 && kWarpsEach == 4);
    const typename Lane::Sketch::Lines lines(mine, kVectors * (warp % kWarpsEach));
    lane.add(now, job.is_sketched, lines.after(0), {0, 1});
    if (job.is_sketched) lane.sketch.fold(lines);
    const HashPair slice = warp_sum(sums);
    if (threadIdx.x % 32 == 0) shared.sums[kept.count * kWarps + warp] = slice;
  };
  if constexpr (ONE_ROUND) {
    if (mine < whole) take(ahead[0]);
    kept.count = 1;
  } else {
    for (; round_start < whole; round_start += step) {
      if (mine < whole) {
        Vector now[kVectors];
#pragma unroll
        for (uint32_t i = 0; i < kVectors; ++i) now[i] = ahead[0][i];
#pragma unroll
        for (uint32_t round = 1; round < kRoundsAhead; ++round)
#pragma unroll
          for (uint32_t i = 0; i < kVectors; ++i) ahead[round - 1][i] = ahead[round][i];
        load(mine + kRoundsAhead * step, ahead[kRoundsAhead - 1]);
        take(now);
      }
      mine += step;
      if (++kept.count == kRoundsKept) {
        __syncthreads();
        if (warp == kDigestWarp) digests = mixed_apart(shared, digests, kept);
        __syncthreads();  // before others take their place
        kept.from += kept.count * step;
        kept.count = 0;
      }
    }
  }
  // The odd end goes to the block whose turn it would be.
  const auto odd_bytes = static_cast<uint32_t>(bytes % kHashBlockBytes);
  const uint64_t odd_round = whole / kAtOnce * kAtOnce;
  const bool has_odd_end =
      odd_bytes != 0 && (round_start == odd_round || (!ONE_ROUND && round_start == odd_round + step));
  // Who mixes the digests need not wait for the statistics of the others.
  const auto sums_are_there = [&] {
    if (warp != kDigestWarp) arrive_at<Barrier::kHashSums>();
  };
  if (!has_odd_end) sums_are_there();
  LaneSums found = lane.finish(centre);
  double bucket = lane.sketch.bucket;
  if (has_odd_end) {
    const OddEnd odd = odd_end_apart<Lane>(job, source, bytes - odd_bytes, odd_bytes, centre, shared);
    add<Lane::kSumsMayBeHuge>(found, odd.sums);
    bucket += odd.bucket;
    __syncwarp();
    sums_are_there();
  }
  const auto digest = [&] {
    wait_at<Barrier::kHashSums>();
    HashPair all = mixed(shared, digests, kept);
    if (has_odd_end && threadIdx.x % 32 == 0) {
      const HashPair of_odd_end = digest_of_odd_end_apart(bytes - odd_bytes, shared);
      all.a += of_odd_end.a;
      all.b += of_odd_end.b;
    }
    return all;
  };
  finish_block<Lane, kHasRests>(warp, job, bytes, found, bucket, digest, centre, block_shared.rows,
                                block_shared.sketches, scratch);
  if (job.blocks > 1 && block == job.blocks - 1u)
    finish_tensor<Lane, kHasRests>(warp, job, bytes, centre, block_shared.of_tensor, scratch);
}

}  // namespace ttap::cuda
