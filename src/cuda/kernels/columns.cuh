#pragma once

#include "cuda/kernels/device_job.h"
#include "cuda/kernels/lanes/huge_sum.h"
#include "cuda/kernels/lanes/lane_sums.h"
#include "cuda/kernels/totals.h"
#include "cuda/kernels/warp_sum.cuh"

// How the sums of threads become those of a block, and the sums of blocks those of a tensor: both are columns of
// numbers, a row for each thread or block, and each warp adds up its own columns. In a fixed order, so results repeat.
namespace ttap::cuda {

// Of the columns of Totals the first are values, the others counts. Each count goes with a value: those of the first
// six warps, of which the first two have a sum and its rest.
inline constexpr uint32_t kColumns = sizeof(Totals) / sizeof(uint64_t);
inline constexpr uint32_t kValueColumns = 10;
inline constexpr uint32_t kCountColumns = kColumns - kValueColumns;
inline constexpr uint32_t kDigestColumn = 8;  // the first of the two
inline constexpr uint32_t kDigestWarp = 6;    // adds those of threads up
__device__ constexpr uint32_t column_of_warp(uint32_t warp) { return warp < 2 ? 2 * warp : warp + 2; }
__device__ constexpr uint32_t warp_of_column(uint32_t column) { return column < 4 ? column / 2 : column - 2; }
__device__ constexpr bool is_counted(uint32_t column) { return column < kDigestColumn; }
__device__ constexpr bool has_rest(uint32_t column) { return column == 0 || column == 2; }
static_assert(offsetof(Totals, nan) == 8 * kValueColumns && offsetof(Totals, digest_a) == 8 * kDigestColumn);

struct ThreadRows {
  uint64_t values[kDigestColumn][kBlockThreads];
  uint32_t counts[kCountColumns][kWarps];  // warps add these up by themselves
};

template <class Lane>
__device__ inline void write_rows(const LaneSums& mine, ThreadRows& rows) {
  const auto put = [&](uint32_t column, double value) {
    rows.values[column][threadIdx.x] = static_cast<uint64_t>(__double_as_longlong(value));
  };
  put(0, mine.sum.high);
  if (Lane::kHasRests) put(1, mine.sum.rest);
  put(2, mine.squares.high);
  if (Lane::kHasRests) put(3, mine.squares.rest);
  put(4, mine.l1);
  put(5, mine.min);
  put(6, -mine.max);
  put(7, mine.min_abs_nonzero);
  uint32_t rare[4] = {};
  // Most tensors have none of these, and lanes agree on that in one instruction.
  if (__any_sync(kAllLanes, (mine.nan | mine.pos_inf | mine.neg_inf | mine.subnormals) != 0)) [[unlikely]] {
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
inline constexpr uint32_t kRowsAtOnce = kBlockThreads / 32;

// What is done with the numbers of a column, and what does nothing to them where it is not zero.
struct Least {
  static constexpr uint64_t kNothing = 0x7FF0000000000000u;  // infinity
  __device__ uint64_t operator()(uint64_t a, uint64_t b) const { return as_double(a) < as_double(b) ? a : b; }
};
struct Count {
  __device__ uint64_t operator()(uint64_t a, uint64_t b) const { return a + b; }
};

// By halves, so that they need not wait for each other.
template <class T, size_t N, class Join>
__device__ inline T joined(T (&some)[N], Join join) {
#pragma unroll
  for (uint32_t step = N / 2; step > 0; step /= 2)
#pragma unroll
    for (uint32_t i = 0; i < step; ++i) some[i] = join(some[i], some[i + step]);
  return some[0];
}

// Over the lanes of a warp, for every one of them.
template <class Join>
__device__ inline uint64_t joined_lanes(uint64_t total, Join join) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2)
    total = join(total, __shfl_xor_sync(kAllLanes, static_cast<unsigned long long>(total), step));
  return total;
}
// Of numbers below 2^51, in two instructions.
__device__ inline uint64_t counted_lanes(uint64_t count) {
  constexpr int kBits = 24;
  const uint64_t high = __reduce_add_sync(kAllLanes, static_cast<uint32_t>(count >> kBits));
  return (high << kBits) + __reduce_add_sync(kAllLanes, static_cast<uint32_t>(count) & ((1u << kBits) - 1));
}

__device__ inline double added_lanes(double total) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) total += __shfl_xor_sync(kAllLanes, total, step);
  return total;
}
// Two at once: each half of the warp adds up one. For the lanes of the lower half.
__device__ inline DoubleSum added_lanes(double high, double rest) {
  const bool adds_rests = threadIdx.x % 32 >= 16;
  double mine = (adds_rests ? rest : high) + __shfl_xor_sync(kAllLanes, adds_rests ? high : rest, 16);
#pragma unroll
  for (int step = 8; step > 0; step /= 2) mine += __shfl_xor_sync(kAllLanes, mine, step);
  return exact_sum(mine, __shfl_xor_sync(kAllLanes, mine, 16));
}

// A power of two, some bits above the sum of 256 such numbers, by its exponent: from that of the greatest.
inline constexpr uint32_t kBitsAbove = 11;
template <size_t N>
__device__ inline uint32_t exponent_above(const uint64_t (&numbers)[N]) {
  uint32_t greatest = 0;
#pragma unroll
  for (uint32_t i = 0; i < N; ++i) {
    const uint32_t magnitude = static_cast<uint32_t>(numbers[i] >> 32) & 0x7FFFFFFFu;
    greatest = magnitude > greatest ? magnitude : greatest;
  }
  return (__reduce_max_sync(kAllLanes, greatest) >> 20) + kBitsAbove;
}

// The rows of all lanes, added up: nothing is lost but for what rounding takes off the rests. Each number is cut at a
// place that all have in common, so high up that the parts above it add up without any rounding. For the first lane.
template <size_t N>
__device__ inline DoubleSum added_exactly(const uint64_t (&highs)[N], double rest, uint32_t exponent) {
  const double cut = as_double(static_cast<uint64_t>(exponent) << 52);
  double above[N], below[N];
#pragma unroll
  for (uint32_t i = 0; i < N; ++i) {
    const double value = as_double(highs[i]);
    above[i] = (cut + value) - cut;
    below[i] = value - above[i];
  }
  const auto add = [](double a, double b) { return a + b; };
  return added_lanes(joined(above, add), joined(below, add) + rest);
}

// The same where some are huge (huge_sum.h): row by row, `row(i)` for each. For every lane.
inline constexpr uint32_t kHugeExponent = 1023 + 950 + kBitsAbove;
static_assert(kOrdinary == 0x1p950);
template <class Row>
__device__ inline DoubleSum added_in_units(uint32_t count, const Row& row) {
  DoubleSum total;
#pragma unroll 1
  for (uint32_t i = 0; i < count; ++i) total = total + in_units(row(i));
#pragma unroll 1
  for (int step = 16; step > 0; step /= 2)
    total =
        total + DoubleSum{__shfl_xor_sync(kAllLanes, total.high, step), __shfl_xor_sync(kAllLanes, total.rest, step)};
  return out_of_units(total);
}

template <size_t N>
__device__ inline double added_plainly(const uint64_t (&rows)[N]) {
  double some[N];
#pragma unroll
  for (uint32_t i = 0; i < N; ++i) some[i] = as_double(rows[i]);
  return joined(some, [](double a, double b) { return a + b; });
}
}  // namespace detail

// Instructions have to be fetched too, and each is needed once: what is known of the rows beforehand keeps them few.
// In what follows every thread of the block takes part, each warp with its columns.

// ---- from threads to a block ----

// Calls put(column, value, count, rest) for every column but those of rests, in one lane. `digest` is called by one
// warp, and gives each lane's part. HAS_RESTS: the block's sums do, even if those of threads have none.
template <class Lane, bool HAS_RESTS, class Digest, class Put>
__device__ inline void add_up_threads(uint32_t warp, const ThreadRows& rows, const Digest& digest, const Put& put) {
  static_assert(kWarps == 8 && 32 * detail::kRowsAtOnce == kBlockThreads);
  const uint32_t lane = threadIdx.x % 32;
  const auto fetch = [&](uint32_t column, uint64_t(&into)[detail::kRowsAtOnce]) {
#pragma unroll
    for (uint32_t i = 0; i < detail::kRowsAtOnce; ++i) into[i] = rows.values[column][lane + 32 * i];
  };
  if (warp > kDigestWarp) return;
  if (warp == kDigestWarp) {
    const HashPair total = warp_sum(digest());
    if (lane < 2) put(kDigestColumn + lane, lane == 0 ? total.a : total.b, 0, 0);
    return;
  }
  const uint32_t column = column_of_warp(warp);
  uint64_t some[detail::kRowsAtOnce];
  fetch(column, some);
  const uint32_t count = __reduce_add_sync(kAllLanes, lane < kWarps ? rows.counts[warp][lane] : 0);
  if (HAS_RESTS && warp < 2) {
    double rest = 0;
    if constexpr (Lane::kHasRests) {
      uint64_t rests[detail::kRowsAtOnce];
      fetch(column + 1, rests);
      rest = detail::added_plainly(rests);
    }
    const uint32_t exponent = detail::exponent_above(some);
    DoubleSum total;
    if (Lane::kSumsMayBeHuge && exponent >= detail::kHugeExponent) [[unlikely]]
      total = detail::added_in_units(detail::kRowsAtOnce, [&](uint32_t i) {
        return DoubleSum{detail::as_double(rows.values[column][lane + 32 * i]),
                         detail::as_double(rows.values[column + 1][lane + 32 * i])};
      });
    else
      total = detail::added_exactly(some, rest, exponent);
    if (lane == 0) put(column, detail::as_bits(total.high), count, total.rest);
    return;
  }
  const uint64_t total = warp <= 2 ? detail::as_bits(detail::added_lanes(detail::added_plainly(some)))
                                   : detail::joined_lanes(detail::joined(some, detail::Least()), detail::Least());
  if (lane == 0) put(column, total, count, 0);
}

// ---- from blocks to a tensor ----

// Of a rest, 20 bits and the exponent: with those of the number itself more than sums need. (The last but one may be
// kInUnits.)
__device__ inline void store_cell(Cell* to, uint64_t value, uint32_t count, double rest) {
  const uint32_t mark = static_cast<uint32_t>(detail::as_bits(rest) >> 32) | 1;
  asm volatile(
      "{\n.reg .b128 whole;\n.reg .b64 high;\nmov.b64 high, {%2, %3};\nmov.b128 whole, {%1, high};\n"
      "st.relaxed.gpu.global.b128 [%0], whole;\n}" ::"l"(to),
      "l"(value), "r"(count), "r"(mark)
      : "memory");
}
__device__ inline uint64_t load_relaxed(const uint64_t* from) {
  uint64_t value;
  asm volatile("ld.relaxed.gpu.global.b64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
}
__device__ inline uint64_t rest_bits(const Cell& cell) { return static_cast<uint64_t>(cell.mark & ~1u) << 32; }
__device__ inline Cell load_cell(const Cell* from) {
  Cell cell;
  asm volatile(
      "{\n.reg .b128 whole;\n.reg .b64 high;\nld.relaxed.gpu.global.b128 whole, [%3];\nmov.b128 {%0, high}, whole;\n"
      "mov.b64 {%1, %2}, high;\n}"
      : "=l"(cell.value), "=r"(cell.count), "=r"(cell.mark)
      : "l"(from)
      : "memory");
  return cell;
}

// What the blocks of a tensor leave.
struct BlockCells {
  Cell* first;
  uint32_t blocks;

  // Some rows of a warp's column, and none where there are no more.
  template <uint32_t N>
  struct Rows {
    const Cell* from;
    Cell cells[N];

    __device__ Rows(const BlockCells& all, uint32_t warp, uint32_t base, uint64_t nothing)
        : from(all.first + size_t{warp} * kMostBlocks + base + threadIdx.x % 32) {
#pragma unroll
      for (uint32_t i = 0; i < N; ++i) cells[i] = {nothing, 0, base + threadIdx.x % 32 + 32 * i < all.blocks ? 0u : 1u};
    }
    // Those that were not there before.
    __device__ void load() {
#pragma unroll
      for (uint32_t i = 0; i < N; ++i)
        if (cells[i].mark == 0) cells[i] = load_cell(from + 32 * i);
    }
    __device__ bool all_there() const {
      uint32_t there = 1;
#pragma unroll
      for (uint32_t i = 0; i < N; ++i) there &= cells[i].mark;
      return (there & 1) != 0;
    }
    __device__ uint32_t count() const {
      uint32_t count = 0;
#pragma unroll
      for (uint32_t i = 0; i < N; ++i) count += cells[i].count;
      return count;
    }
    __device__ void values(uint64_t (&into)[N]) const {
#pragma unroll
      for (uint32_t i = 0; i < N; ++i) into[i] = cells[i].value;
    }
    __device__ void rests(uint64_t (&into)[N]) const {
#pragma unroll
      for (uint32_t i = 0; i < N; ++i) into[i] = rest_bits(cells[i]);
    }
  };

  // Of this lane's row from `base` on, if there is one: it has been waited for.
  __device__ DoubleSum sum_of(uint32_t warp, uint32_t base) const {
    const uint32_t row = base + threadIdx.x % 32;
    if (row >= blocks) return {};
    const Cell cell = load_cell(first + size_t{warp} * kMostBlocks + row);
    return {detail::as_double(cell.value), detail::as_double(rest_bits(cell))};
  }

  // As they were before the blocks came.
  __device__ void clear(uint32_t warp) const {
#pragma unroll 1
    for (uint32_t row = threadIdx.x % 32; row < blocks; row += 32)
      *reinterpret_cast<uint4*>(first + size_t{warp} * kMostBlocks + row) = {0, 0, 0, 0};
  }
};

// The same of blocks, which are waited for, 32 times N at once; digests are two columns like the others here. Without
// blocks it does nothing but fetch its instructions.
template <class Lane, bool HAS_RESTS, uint32_t N, class Put>
__device__ inline void add_up_blocks(uint32_t warp, const BlockCells& cells, const Put& put) {
  static_assert(kWarps == 8);
  const bool is_sum = warp <= 2, is_least = warp > 2 && warp < 6;
  // Magnitudes may add up to infinity, which does not survive being cut.
  const bool is_plain = Lane::kSumsMayBeHuge && warp == 2;
  const uint64_t nothing = is_least ? detail::Least::kNothing : 0;
  DoubleSum sum;
  uint64_t total = nothing;
  uint64_t count = 0;
  uint32_t base = 0;
#pragma unroll 1
  do {
    BlockCells::Rows<N> rows(cells, warp, base, nothing);
    do rows.load();
    while (!rows.all_there());
    count += rows.count();
    uint64_t some[N];
    rows.values(some);
    if (is_plain) {
      sum.high += detail::added_plainly(some);
    } else if (is_sum) {
      const uint32_t exponent = detail::exponent_above(some);
      DoubleSum these;
      if (Lane::kSumsMayBeHuge && exponent >= detail::kHugeExponent) [[unlikely]] {
        these = detail::added_in_units(N, [&](uint32_t i) { return cells.sum_of(warp, base + 32 * i); });
      } else {
        uint64_t below[N];
        rows.rests(below);
        these = detail::added_exactly(some, HAS_RESTS ? detail::added_plainly(below) : 0, exponent);
      }
      sum = Lane::kSumsMayBeHuge ? sum_of_huge(sum, these) : sum + these;
    } else if (is_least) {
      total = detail::Least()(total, detail::joined(some, detail::Least()));
    } else {
      total += detail::joined(some, detail::Count());
    }
    base += 32 * N;
  } while (base < cells.blocks);
  if (is_plain)
    total = detail::as_bits(detail::added_lanes(sum.high));
  else if (is_sum)
    total = detail::as_bits(sum.high);
  else if (is_least)
    total = detail::joined_lanes(total, detail::Least());
  else
    total = detail::joined_lanes(total, detail::Count());
  count = detail::counted_lanes(count);
  if (cells.blocks == 0) return;
  if (threadIdx.x % 32 == 0) put(column_of_warp(warp), total, count, sum.rest);
  cells.clear(warp);
}

}  // namespace ttap::cuda
