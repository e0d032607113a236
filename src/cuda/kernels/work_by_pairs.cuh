#pragma once

#include "cuda/kernels/block_work.cuh"
#include "cuda/kernels/feed.cuh"

// A block's share of a large tensor: two hash blocks for each warp at a time.
namespace ttap::cuda {

// What the threads found takes the place of what they needed to find it.
template <class Lane, class Feed>
struct PairsShared {
  struct Working {
    HashShared hash;
    typename Lane::Shared lane;
    typename Feed::Shared feed;
  };
  struct Found {
    ThreadRows rows;
    SketchRows sketches, of_tensor;
  };
  union {
    Working working;
    Found found;
  };
  HashPair digests[kWarps];
  double centre;
};

template <class Lane, class Feed, class Source>
__device__ inline void work_by_pairs(const DeviceJob& job, const Source& source, Scratch& scratch,
                                     PairsShared<Lane, Feed>& block_shared) {
  HashShared& shared = block_shared.working.hash;
  const uint32_t in_warp = threadIdx.x % 32;
  const uint64_t bytes = live_bytes(job);
  const uint64_t pairs = bytes / kPairBytes;
  const uint64_t step = uint64_t{job.blocks} * kWarps;
  const uint32_t block = blockIdx.x - job.first_block;
  const uint32_t warp = warp_number();
  uint64_t pair = uint64_t{block} * kWarps + warp;

  uint64_t here = pair * kPairBytes;
  Feed feed(block_shared.working.feed, source, here, pair < pairs);

  if constexpr (Lane::kHasCentre)
    if (warp == 0) {
      const double centre = centre_of<Lane>(job, source);
      if (in_warp == 0) block_shared.centre = centre;
    }
  Lane lane(block_shared.working.lane, job.dtype, 0);
  load_keys(shared);
  __syncthreads();

  const auto keys = static_cast<uint32_t>(__cvta_generic_to_shared(shared.keys));
  HashPair digests;
  // Mixing is worth its while for 32 hash blocks at once, one for each lane.
  HashPair* kept = shared.sums + threadIdx.x / 32 * 32;
  uint32_t count = 0;  // of pairs
  const auto mix_kept = [&](uint64_t end) {
    __syncwarp();
    if (in_warp < 2 * count) {
      const uint64_t hash_block = 2 * (end - (count - in_warp / 2) * step) + in_warp % 2;
      const HashPair digest = hash_mix(kept[in_warp], hash_block);
      digests.a += digest.a;
      digests.b += digest.b;
    }
    __syncwarp();
    count = 0;
  };
#pragma unroll 1
  for (; pair < pairs; pair += step) {
    const uint64_t next = (pair + step) * kPairBytes;
    HashPair first, second;
    const typename Lane::Sketch::Lines lines(2 * pair, 0);
#pragma unroll 1
    for (uint32_t round = 0; round < kRounds; ++round) {
#pragma unroll
      for (uint32_t part = 0; part < kSteps; ++part) {
        const uint32_t start = round * kRoundBytes + part * kStepBytes;
        Vector now[kStepVectors];
        feed.take(round, part, now);
#pragma unroll
        for (uint32_t i = 0; i < kStepVectors / 2; ++i) {
          const uint32_t at = keys + start + (in_warp + 32 * i) * kVectorBytes;
          const Vector key = load_shared(at);
          const Vector shifted_key = load_shared(at + kHashStripeBytes);
          add_to_hash(now[i], key, shifted_key, first);
          add_to_hash(now[i + kStepVectors / 2], key, shifted_key, second);
        }
        if (job.copy_to != nullptr) {
          std::byte* to = job.copy_to + here + start + in_warp * kVectorBytes;
#pragma unroll
          for (uint32_t i = 0; i < kStepVectors; ++i) store_copy(to, offset_in_step(i), now[i]);
        }
        if constexpr (Feed::kFetchesEarly) feed.fetch(source, round, part, here, next, pair + step < pairs);
        static_assert(kStepVectors == 4 && kRoundBytes == 4 * kSketchLineBytes && kPairBytes == 16 * kSketchLineBytes);
        lane.add(now, job.is_sketched, lines.after(4 * round), {2 * part, 2 * part + 1, 2 * part + 8, 2 * part + 9});
        if constexpr (!Feed::kFetchesEarly) feed.fetch(source, round, part, here, next, pair + step < pairs);
      }
      static_assert(kRounds == 2);
      lane.sketch.skip_four_lines();
    }
    here = next;
    if (job.is_sketched) lane.sketch.fold(lines);
    const uint64_t sum = warp_sum_quarters(first, second);
    if (in_warp % 8 == 0) reinterpret_cast<uint64_t*>(kept + 2 * count)[in_warp / 8] = sum;
    if (++count == 16) mix_kept(pair + step);
  }
  mix_kept(pair);
  const double centre = Lane::kHasCentre ? block_shared.centre : 0;
  LaneSums mine = lane.finish(centre);
  double bucket = lane.sketch.bucket;
  // What is left goes to the last block, which has the fewest pairs: a hash block at most, and the odd end.
  if (block == job.blocks - 1u)
    for (uint64_t start = pairs * kPairBytes; start < bytes; start += kHashBlockBytes) {
      const uint64_t size = bytes - start < kHashBlockBytes ? bytes - start : kHashBlockBytes;
      const OddEnd odd = take_odd_end<Lane>(job, source, start, static_cast<uint32_t>(size), centre, shared);
      add<Lane::kSumsMayBeHuge>(mine, odd.sums);
      bucket += odd.bucket;
      __syncthreads();
      if (threadIdx.x == 0) {
        const HashPair digest = digest_of_odd_end(start, shared);
        digests.a += digest.a;
        digests.b += digest.b;
      }
      __syncthreads();
    }
  const HashPair of_warp = warp_sum(digests);
  if (in_warp == 0) block_shared.digests[threadIdx.x / 32] = of_warp;
  __syncthreads();  // who still needs what the rows take the place of
  const auto digest = [&] { return in_warp < kWarps ? block_shared.digests[in_warp] : HashPair{}; };
  auto& [rows, sketches, of_tensor] = block_shared.found;
  finish_block<Lane, true>(warp, job, bytes, mine, bucket, digest, centre, rows, sketches, scratch);
  if (job.blocks > 1 && block == job.blocks - 1u)
    finish_tensor<Lane, true>(warp, job, bytes, centre, of_tensor, scratch);
}

}  // namespace ttap::cuda
