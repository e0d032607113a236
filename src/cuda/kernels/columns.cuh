#pragma once

#include "cuda/kernels/device_job.h"
#include "cuda/kernels/lane_sums.h"

// How the sums of threads become those of a block, and the sums of blocks those of a tensor: both are columns of
// numbers, a row for each thread or block, and each warp adds up its own columns. In a fixed order, so results repeat.
namespace ttap::cuda {

inline constexpr unsigned kAllLanes = 0xFFFFFFFFu;

// Of the columns of Totals, the first kValueColumns have a row for each thread; the others are counts.
inline constexpr uint32_t kColumns = sizeof(Totals) / sizeof(uint64_t);
inline constexpr uint32_t kValueColumns = 10;
inline constexpr uint32_t kCountColumns = kColumns - kValueColumns;

struct ThreadRows {
  uint64_t values[kValueColumns][kBlockThreads];
  uint64_t counts[kCountColumns][kWarps];  // warps add these up by themselves
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

// Columns that lie `stride` numbers apart.
template <class T>
struct Columns {
  T* first;
  uint32_t stride;
  __device__ T* operator[](uint32_t column) const { return first + size_t{column} * stride; }
};

namespace detail {
__device__ inline double as_double(uint64_t bits) { return __longlong_as_double(static_cast<long long>(bits)); }
__device__ inline uint64_t as_bits(double value) { return static_cast<uint64_t>(__double_as_longlong(value)); }

inline constexpr uint64_t kInfinity = 0x7FF0000000000000u;

// As many rows for each lane as are fetched before the first is used.
inline constexpr uint32_t kRowsAtOnce = 8;

// Rows base, base + 32, ..., or `nothing` where there are none.
__device__ inline void fetch(const uint64_t* column, uint32_t base, uint32_t rows, uint64_t nothing,
                             uint64_t (&fetched)[kRowsAtOnce]) {
#pragma unroll
  for (uint32_t i = 0; i < kRowsAtOnce; ++i) {
    fetched[i] = nothing;
    if (base + 32 * i < rows) fetched[i] = column[base + 32 * i];
  }
}

// By halves, so that they need not wait for each other.
template <class T, class Join>
__device__ inline T joined(T (&some)[kRowsAtOnce], Join join) {
#pragma unroll
  for (uint32_t step = kRowsAtOnce / 2; step > 0; step /= 2)
#pragma unroll
    for (uint32_t i = 0; i < step; ++i) some[i] = join(some[i], some[i + step]);
  return some[0];
}

__device__ inline DoubleSum total_of_pairs(const uint64_t* high, const uint64_t* rest, uint32_t rows) {
  DoubleSum total;
  uint32_t base = threadIdx.x % 32;
  if (rows <= 32) {
    if (base < rows) total = {as_double(high[base]), as_double(rest[base])};
    base = rows;
  }
#pragma unroll 1
  for (; base < rows; base += 32 * kRowsAtOnce) {
    uint64_t highs[kRowsAtOnce], rests[kRowsAtOnce];
    fetch(high, base, rows, 0, highs);
    fetch(rest, base, rows, 0, rests);
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

template <class T, class Convert, class Join>
__device__ inline T total_of(const uint64_t* column, uint32_t rows, uint64_t nothing, Convert convert, Join join) {
  T total = convert(nothing);
  uint32_t base = threadIdx.x % 32;
  if (rows <= 32) {  // as those of most tensors are
    if (base < rows) total = convert(column[base]);
    base = rows;
  }
#pragma unroll 1
  for (; base < rows; base += 32 * kRowsAtOnce) {
    uint64_t fetched[kRowsAtOnce];
    fetch(column, base, rows, nothing, fetched);
    T some[kRowsAtOnce];
#pragma unroll
    for (uint32_t i = 0; i < kRowsAtOnce; ++i) some[i] = convert(fetched[i]);
    total = join(total, joined(some, join));
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) total = join(total, T(__shfl_xor_sync(kAllLanes, total, step)));
  return total;
}

__device__ inline unsigned long long total_of_integers(const uint64_t* column, uint32_t rows) {
  return total_of<unsigned long long>(
      column, rows, 0, [](uint64_t bits) { return static_cast<unsigned long long>(bits); },
      [](unsigned long long a, unsigned long long b) { return a + b; });
}
}  // namespace detail

// The totals go to row 0 of `totals`. Every thread of the block comes here; whoever reads the totals waits for all.
// Not inlined, for threads and for blocks the same code: instructions have to be fetched too.
__device__ __noinline__ static void add_up(Columns<const uint64_t> values, uint32_t rows,
                                           Columns<const uint64_t> counts, uint32_t count_rows,
                                           Columns<uint64_t> totals) {
  static_assert(kWarps == 8);
  const uint32_t warp = threadIdx.x / 32;
  const bool writes = threadIdx.x % 32 == 0;
  if (warp < 2) {
    const DoubleSum total = detail::total_of_pairs(values[2 * warp], values[2 * warp + 1], rows);
    if (writes) {
      *totals[2 * warp] = detail::as_bits(total.high);
      *totals[2 * warp + 1] = detail::as_bits(total.rest);
    }
    return;
  }
  const uint32_t column = warp + 2;
  uint64_t total;
  if (warp == 2)
    total = detail::as_bits(
        detail::total_of<double>(values[column], rows, 0, detail::as_double, [](double a, double b) { return a + b; }));
  else if (warp < 6)
    total = detail::as_bits(detail::total_of<double>(values[column], rows, detail::kInfinity, detail::as_double,
                                                     [](double a, double b) { return a < b ? a : b; }));
  else
    total = detail::total_of_integers(values[column], rows);
  const uint64_t count = detail::total_of_integers(counts[warp - 2], count_rows);
  if (writes) {
    *totals[column] = total;
    *totals[kValueColumns + warp - 2] = count;
  }
}

}  // namespace ttap::cuda
