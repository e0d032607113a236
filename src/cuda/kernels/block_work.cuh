#pragma once

#include "cuda/kernels/block_lanes.cuh"
#include "cuda/kernels/columns.cuh"
#include "cuda/kernels/source.cuh"
#include "cuda/kernels/warp_sum.cuh"

// What a block does for a tensor, however it reads its share: the odd end, and the end. Blocks leave what they found
// for the tensor's last one, which waits for the others and adds up. They are all at work, or done: blocks begin in the
// order of their numbers.
namespace ttap::cuda {

// Sums of hash blocks, or of slices of them, that wait to be mixed: 32 for each warp.
inline constexpr uint32_t kSumsKept = 32 * kWarps;

struct HashShared {
  alignas(16) uint32_t keys[kHashKeyCount];
  HashPair sums[kSumsKept];
  HashPair odd[kWarps];
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
  if (job.rows == nullptr) return job.bytes;
  const int64_t live = job.rows_are_64_bit ? *static_cast<const int64_t*>(job.rows)
                                           : static_cast<int64_t>(*static_cast<const int32_t*>(job.rows));
  if (live < 0) return 0;
  const auto rows = static_cast<uint64_t>(live);
  const uint64_t bytes = rows * job.row_bytes;
  return __umul64hi(rows, job.row_bytes) != 0 || bytes > job.bytes ? job.bytes : bytes;
}
__device__ inline void store_copy(std::byte* copy_to, uint64_t at, const Vector& vector) {
  *reinterpret_cast<uint4*>(copy_to + at) = {vector.word[0], vector.word[1], vector.word[2], vector.word[3]};
}

// What distances are taken from: the first value of the tensor, or another; zero where none is finite.
// Every lane of the warp comes here.
template <class Lane, class Source>
__device__ TTAP_APART double centre_further_on(const DeviceJob& job, const Source& source) {
  const uint64_t bytes = live_bytes(job);
#pragma unroll 1
  for (uint32_t first = 0; first < kCentrePlaces; first += 32) {
    const uint64_t at = centre_place(first + threadIdx.x % 32, bytes);
    const auto valid = static_cast<uint32_t>(bytes - at < kVectorBytes ? bytes - at : kVectorBytes);
    double centre = 0;
    const bool is_found = at < bytes && Lane::get_centre(source.partial(at, valid), valid, centre);
    const uint32_t found = __ballot_sync(kAllLanes, is_found);
    if (found != 0) return __shfl_sync(kAllLanes, centre, __ffs(static_cast<int>(found)) - 1);
    if (centre_place(first + 31, bytes) >= bytes) break;  // that was all of it
  }
  return 0;
}
template <class Lane, class Source>
__device__ inline double centre_of(const DeviceJob& job, const Source& source) {
  double centre = 0;
  bool is_found = job.bytes == 0 || Lane::get_centre(job.data, centre);
  // Lanes agree on it: a program that writes there meanwhile, by mistake, should not make them wait for each other.
  if constexpr (Lane::kIsFloat) is_found = __all_sync(kAllLanes, is_found);
  if constexpr (Lane::kIsFloat || !Source::kIsAligned)
    if (!is_found) return centre_further_on<Lane>(job, source);
  return centre;
}

// Up to a hash block's bytes from `start` on, a vector for each thread. Every thread of the block comes here, and gets
// the statistics of its values, and what its bucket gets.
struct OddEnd {
  LaneSums sums;
  double bucket = 0;
};
template <class Lane, class Source>
__device__ inline OddEnd take_odd_end(const DeviceJob& job, const Source& source, uint64_t start, uint32_t size,
                                      double centre, HashShared& shared) {
  const uint32_t at = threadIdx.x * kVectorBytes;
  const uint32_t valid = at >= size ? 0 : size - at < kVectorBytes ? size - at : kVectorBytes;
  const Vector vector = source.partial(start + at, valid);
  HashPair sums;
  // Zeros up to the next stripe are part of the hash.
  if (at < (size + kHashStripeBytes - 1) / kHashStripeBytes * kHashStripeBytes)
    add_to_hash(vector, shared.keys, threadIdx.x, sums);
  if (job.copy_to != nullptr) {
#pragma unroll
    for (uint32_t i = 0; i < kVectorBytes; ++i)
      if (i < valid) job.copy_to[start + at + i] = static_cast<std::byte>(vector.word[i / 4] >> (8 * (i % 4)));
  }
  const HashPair of_warp = warp_sum(sums);
  if (threadIdx.x % 32 == 0) shared.odd[threadIdx.x / 32] = of_warp;
  OddEnd found{Lane::sums_of_odd(vector, valid, job.dtype, centre)};
  if constexpr (Lane::Sketch::kIsThere)
    if (job.is_sketched) {
      const typename Lane::Sketch::Lines lines(start / kHashBlockBytes, threadIdx.x / 32);
      const Vector vectors[] = {vector};
      typename Lane::Sketch sketch;
      sketch.template add<true>(vectors, lines.signs, {0});
      sketch.fold(lines);
      found.bucket = sketch.bucket;
    }
  return found;
}

// After a barrier that follows take_odd_end(); for one thread.
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

// The host works out what the totals mean (totals.h).
struct ResultWriter {
  const DeviceJob& job;

  __device__ uint64_t* numbers() const { return reinterpret_cast<uint64_t*>(job.result); }
  __device__ void operator()(uint32_t column, uint64_t value, uint64_t count) const {
    numbers()[column] = value;
    if (is_counted(column)) numbers()[kValueColumns + warp_of_column(column)] = count;
  }
  __device__ void operator()(uint32_t column, uint64_t value, uint64_t count, double rest) const {
    (*this)(column, value, count);
    if (has_rest(column)) numbers()[column + 1] = detail::as_bits(rest);
  }
  // After all totals, by every thread of the block.
  template <class Lane>
  __device__ void end(uint64_t bytes, double centre) const {
    if (job.is_watched) __syncthreads();  // else the end of the kernel is soon enough for all of it
    if (threadIdx.x != kBlockThreads - 1) return;
    numbers()[kColumns] = detail::as_bits(centre);
    numbers()[kColumns + 1] = bytes;
    numbers()[kColumns + 3] = Lane::Sketch::kIsThere && job.is_sketched ? 1 : 0;
    uint64_t* const sequence = numbers() + kColumns + 2;
    if (job.is_watched)
      asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(sequence), "l"(job.sequence) : "memory");
    else
      *sequence = job.sequence;
  }
};
static_assert(offsetof(DeviceResult, centre) == 8 * kColumns && offsetof(DeviceResult, bytes) == 8 * (kColumns + 1) &&
              offsetof(DeviceResult, sequence) == 8 * (kColumns + 2) &&
              offsetof(DeviceResult, has_sketch) == 8 * (kColumns + 3));

// The buckets of a block's warps, or those that a tensor's last block added up.
struct SketchRows {
  double bucket[kWarps][32];

  // Of a lane, in a fixed order.
  __device__ double sum() const {
    double sum = 0;
#pragma unroll
    for (uint32_t i = 0; i < kWarps; ++i) sum += bucket[i][threadIdx.x % 32];
    return sum;
  }
};
inline constexpr uint32_t kSketchWarp = kWarps - 1;  // adds those up

// A double in which +0 is another zero (Scratch::sketches).
__device__ inline uint64_t there_bits(double value) {
  const uint64_t bits = detail::as_bits(value);
  return bits == 0 ? uint64_t{1} << 63 : bits;
}

// What a block's threads found, each `mine`: to the result when the block is the only one, else to its cells. `digest`
// is called after the rows are written, by one warp (add_up_threads()).
template <class Lane, bool HAS_RESTS, class Digest>
__device__ inline void finish_block(uint32_t warp, const DeviceJob& job, uint64_t bytes, const LaneSums& mine,
                                    double bucket, const Digest& digest, double centre, ThreadRows& rows,
                                    SketchRows& sketches, Scratch& scratch) {
  write_rows<Lane>(mine, rows);
  if constexpr (Lane::Sketch::kIsThere) sketches.bucket[warp][threadIdx.x % 32] = bucket;
  if (warp == kDigestWarp)
    arrive_at<Barrier::kRows>();  // it does not read them
  else
    wait_at<Barrier::kRows>();
  const bool alone = job.blocks == 1;
  Cell* const cells = &scratch.cells[0][blockIdx.x];
  const ResultWriter result{job};
  add_up_threads<Lane, HAS_RESTS>(
      warp, rows, digest, [&](uint32_t column, uint64_t value, uint32_t count, double rest) {
        if (!alone)
          store_cell(cells + size_t{warp_of_column(column)} * kMostBlocks, value, count, rest);
        else if constexpr (HAS_RESTS)
          result(column, value, count, rest);
        else
          result(column, value, count);
      });
  if constexpr (Lane::Sketch::kIsThere)
    if (warp == kSketchWarp && job.is_sketched) {
      const double sum = sketches.sum();
      if (alone)
        job.result->sketch[Lane::Sketch::number()] = sum;
      else
        __stcg(reinterpret_cast<unsigned long long*>(&scratch.sketches[blockIdx.x][threadIdx.x % 32]), there_bits(sum));
    }
  if (!alone) return;
  if (!HAS_RESTS && threadIdx.x == kBlockThreads - 1) result.numbers()[1] = result.numbers()[3] = 0;
  result.end<Lane>(bytes, centre);
}

// The buckets that the blocks of a tensor leave for the last one, each warp every eighth block's. On their way from the
// start.
struct BlockSketches {
  static constexpr uint32_t kAtOnce = 16;
  uint64_t (*from)[kSketchBuckets];
  uint32_t blocks;
  uint64_t some[kAtOnce];

  __device__ BlockSketches(uint32_t warp, const DeviceJob& job, Scratch& scratch)
      : from(scratch.sketches + job.first_block), blocks(job.blocks) {
    load(warp);
  }
  __device__ void load(uint32_t base) {
#pragma unroll
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      const uint32_t row = base + kWarps * i;
      some[i] = row < blocks ? load_relaxed(&from[row][threadIdx.x % 32]) : there_bits(0);
    }
  }
  // Waits for them, and leaves their places as they were before the blocks came.
  __device__ double sum(uint32_t warp) {
    double sum = 0;
#pragma unroll 1
    for (uint32_t base = warp;; load(base)) {
      for (bool all_there = false; !all_there;) {
        all_there = true;
#pragma unroll
        for (uint32_t i = 0; i < kAtOnce; ++i) all_there &= some[i] != 0;
        if (!all_there) load(base);
      }
#pragma unroll
      for (uint32_t i = 0; i < kAtOnce; ++i) {
        sum += detail::as_double(some[i]);
        const uint32_t row = base + kWarps * i;
        if (row < blocks) from[row][threadIdx.x % 32] = 0;
      }
      base += kWarps * kAtOnce;
      if (base >= blocks) return sum;
    }
  }
};

// For the last block of a tensor: waits for the others, and adds up what all left, 32 blocks times this at once.
inline constexpr uint32_t kCellsAtOnce = 4;
struct Nothing {
  __device__ Nothing(uint32_t, const DeviceJob&, Scratch&) {}
};
template <class Lane, bool HAS_RESTS>
__device__ inline void finish_tensor(uint32_t warp, const DeviceJob& job, uint64_t bytes, double centre,
                                     SketchRows& sketches, Scratch& scratch) {
  const ResultWriter result{job};
  [[maybe_unused]] std::conditional_t<Lane::Sketch::kIsThere, BlockSketches, Nothing> blocks(warp, job, scratch);
  // The digests are there first. Who adds those up goes through it without any blocks before: then the instructions are
  // there too when the others come, and the blocks done, or nearly.
#pragma unroll 1
  for (bool rehearses = warp >= kDigestWarp;; rehearses = false) {
    add_up_blocks<Lane, HAS_RESTS, kCellsAtOnce>(
        warp, {&scratch.cells[0][job.first_block], rehearses ? 0u : job.blocks}, result);
    if (!rehearses) break;
  }
  if constexpr (Lane::Sketch::kIsThere)
    if (job.is_sketched) {
      sketches.bucket[warp][threadIdx.x % 32] = blocks.sum(warp);
      __syncthreads();
      if (warp == kSketchWarp) job.result->sketch[Lane::Sketch::number()] = sketches.sum();
    }
  result.end<Lane>(bytes, centre);
}

}  // namespace ttap::cuda
