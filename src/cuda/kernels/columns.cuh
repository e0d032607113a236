#pragma once

#include "cuda/kernels/device_job.h"
#include "cuda/kernels/lane_sums.h"
#include "cuda/totals.h"

// How the sums of threads become those of a block, and the sums of blocks those of a tensor: both are columns of
// numbers, a row for each thread or block, and each warp adds up its own columns. In a fixed order, so results repeat.
namespace ttap::cuda {

inline constexpr unsigned kAllLanes = 0xFFFFFFFFu;

// Told so that the compiler sees that it is the same for the whole warp.
__device__ inline uint32_t warp_number() { return __shfl_sync(kAllLanes, threadIdx.x / 32, 0); }

// Of the columns of Totals, the first kValueColumns have a row for each thread; the others are counts.
inline constexpr uint32_t kColumns = sizeof(Totals) / sizeof(uint64_t);
inline constexpr uint32_t kValueColumns = 10;
inline constexpr uint32_t kCountColumns = kColumns - kValueColumns;
static_assert(offsetof(Totals, nan) == 8 * kValueColumns);

struct ThreadRows {
  uint64_t values[kValueColumns][kBlockThreads];
  uint32_t counts[kCountColumns][kWarps];  // warps add these up by themselves
};

__device__ inline void write_rows(const LaneSums& mine, const HashPair& digest, ThreadRows& rows) {
  const auto put = [&](uint32_t column, double value) {
    rows.values[column][threadIdx.x] = static_cast<uint64_t>(__double_as_longlong(value));
  };
  put(0, mine.sum.high);
  put(1, mine.sum.rest);
  put(2, mine.squares.high);
  put(3, mine.squares.rest);
  put(4, mine.l1);
  put(5, mine.min);
  put(6, -mine.max);
  put(7, mine.min_abs_nonzero);
  rows.values[8][threadIdx.x] = digest.a;
  rows.values[9][threadIdx.x] = digest.b;
  uint32_t rare[4] = {};
  // Most tensors have none of these, and lanes agree on that in one instruction.
  if (__any_sync(kAllLanes, (mine.nan | mine.pos_inf | mine.neg_inf | mine.subnormals) != 0)) {
    rare[0] = __reduce_add_sync(kAllLanes, mine.nan);
    rare[1] = __reduce_add_sync(kAllLanes, mine.pos_inf);
    rare[2] = __reduce_add_sync(kAllLanes, mine.neg_inf);
    rare[3] = __reduce_add_sync(kAllLanes, mine.subnormals);
  }
  const uint32_t zeros = __reduce_add_sync(kAllLanes, mine.zeros);
  const uint32_t finite = __reduce_add_sync(kAllLanes, mine.finite);
  if (threadIdx.x % 32 == 0) {
    const uint32_t warp = threadIdx.x / 32;
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) rows.counts[i][warp] = rare[i];
    rows.counts[4][warp] = zeros;
    rows.counts[5][warp] = finite;
  }
}

namespace detail {
__device__ inline double as_double(uint64_t bits) { return __longlong_as_double(static_cast<long long>(bits)); }
__device__ inline uint64_t as_bits(double value) { return static_cast<uint64_t>(__double_as_longlong(value)); }

// As many rows for each lane as are fetched before the first is used.
inline constexpr uint32_t kRowsAtOnce = 8;

// What is done with the numbers of a column, and what does nothing to them.
struct Add {
  static constexpr uint64_t kNothing = 0;
  __device__ uint64_t operator()(uint64_t a, uint64_t b) const { return as_bits(as_double(a) + as_double(b)); }
};
struct Least {
  static constexpr uint64_t kNothing = 0x7FF0000000000000u;  // infinity
  __device__ uint64_t operator()(uint64_t a, uint64_t b) const { return as_double(a) < as_double(b) ? a : b; }
};
struct Count {
  static constexpr uint64_t kNothing = 0;
  __device__ uint64_t operator()(uint64_t a, uint64_t b) const { return a + b; }
};

// By halves, so that they need not wait for each other.
template <class T, class Join>
__device__ inline T joined(T (&some)[kRowsAtOnce], Join join) {
#pragma unroll
  for (uint32_t step = kRowsAtOnce / 2; step > 0; step /= 2)
#pragma unroll
    for (uint32_t i = 0; i < step; ++i) some[i] = join(some[i], some[i + step]);
  return some[0];
}

// Over all rows of a column, for every lane of a warp.
template <class Rows, class Join>
__device__ inline uint64_t total_of(const Rows& rows, uint32_t column, Join join) {
  uint64_t total = Join::kNothing;
#pragma unroll 1
  for (uint32_t base = 0; base < rows.count(); base += 32 * kRowsAtOnce) {
    uint64_t some[kRowsAtOnce];
    rows.fetch(column, base, Join::kNothing, some);
    total = join(total, joined(some, join));
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2)
    total = join(total, __shfl_xor_sync(kAllLanes, static_cast<unsigned long long>(total), step));
  return total;
}

template <class Rows>
__device__ inline DoubleSum total_of_pairs(const Rows& rows, uint32_t column) {
  DoubleSum total;
#pragma unroll 1
  for (uint32_t base = 0; base < rows.count(); base += 32 * kRowsAtOnce) {
    uint64_t highs[kRowsAtOnce], rests[kRowsAtOnce];
    rows.fetch(column, base, 0, highs);
    rows.fetch(column + 1, base, 0, rests);
    DoubleSum some[kRowsAtOnce];
#pragma unroll
    for (uint32_t i = 0; i < kRowsAtOnce; ++i) some[i] = {as_double(highs[i]), as_double(rests[i])};
    total = total + joined(some, [](const DoubleSum& a, const DoubleSum& b) { return a + b; });
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2)
    total =
        total + DoubleSum{__shfl_xor_sync(kAllLanes, total.high, step), __shfl_xor_sync(kAllLanes, total.rest, step)};
  return total;
}
}  // namespace detail

// Instructions have to be fetched too, and each is needed once: what is known of the rows beforehand keeps them few.

struct RowsOfThreads {
  const ThreadRows& rows;
  __device__ static constexpr uint32_t count() { return kBlockThreads; }
  __device__ void fetch(uint32_t column, uint32_t, uint64_t, uint64_t (&into)[detail::kRowsAtOnce]) const {
    static_assert(32 * detail::kRowsAtOnce == kBlockThreads);
#pragma unroll
    for (uint32_t i = 0; i < detail::kRowsAtOnce; ++i) into[i] = rows.values[column][threadIdx.x % 32 + 32 * i];
  }
  __device__ uint64_t total_count(uint32_t column) const {
    const uint32_t lane = threadIdx.x % 32;
    return __reduce_add_sync(kAllLanes, lane < kWarps ? rows.counts[column][lane] : 0);
  }
};

// Of the blocks that work on a tensor, in the scratch memory.
struct RowsOfBlocks {
  const uint64_t* first;
  uint32_t blocks;
  __device__ uint32_t count() const { return blocks; }
  __device__ void fetch(uint32_t column, uint32_t base, uint64_t nothing, uint64_t (&into)[detail::kRowsAtOnce]) const {
    const uint32_t row = base + threadIdx.x % 32;
    const uint64_t* from = first + size_t{column} * kMostBlocks + row;
#pragma unroll
    for (uint32_t i = 0; i < detail::kRowsAtOnce; ++i) {
      into[i] = nothing;
      if (row + 32 * i < blocks) into[i] = __ldcg(reinterpret_cast<const unsigned long long*>(from + 32 * i));
    }
  }
  __device__ uint64_t total_count(uint32_t column) const {
    return detail::total_of(*this, kValueColumns + column, detail::Count());
  }
};

// The totals go to `totals`, one every `stride` numbers. Every thread of the block comes here, and each warp has its
// columns; whoever reads the totals waits for all. HAS_RESTS is false where no row has a rest, and the highs add up
// exactly or nearly so.
template <bool HAS_RESTS, class Rows>
__device__ inline void add_up(const Rows& rows, uint64_t* totals, uint32_t stride) {
  static_assert(kWarps == 8);
  const uint32_t warp = warp_number();
  const auto put = [&](uint32_t column, uint64_t total) {
    if (threadIdx.x % 32 == 0) totals[size_t{column} * stride] = total;
  };
  if (HAS_RESTS && warp < 2) {
    const DoubleSum total = detail::total_of_pairs(rows, 2 * warp);
    put(2 * warp, detail::as_bits(total.high));
    put(2 * warp + 1, detail::as_bits(total.rest));
    return;
  }
  const uint32_t column = warp < 2 ? 2 * warp : warp + 2;
  if (warp <= 2)
    put(column, detail::total_of(rows, column, detail::Add()));
  else if (warp < 6)
    put(column, detail::total_of(rows, column, detail::Least()));
  else
    put(column, detail::total_of(rows, column, detail::Count()));
  if (warp < 2)
    put(column + 1, 0);
  else
    put(kValueColumns + warp - 2, rows.total_count(warp - 2));
}

}  // namespace ttap::cuda
