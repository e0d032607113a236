#pragma once

#include <cstdint>

#include "cuda/kernels/lanes/compiler.h"
#include "cuda/kernels/lanes/lane_format.h"
#include "cuda/kernels/lanes/lane_hash.h"
#include "cuda/kernels/lanes/lane_sums.h"

// The statistics of formats of 16 bits, two values a word. Squares are short (32 bits at most, 22 of a float): their
// plain sums are exact, or the values so far apart that nothing cancels, as long as a lane takes some thousands.
namespace ttap::cuda {

template <class F>
struct PackedStats {
  static constexpr bool kFloat = F::kKind == LaneKind::kFloat;

  uint32_t min = F::kHighest, max = F::kLowest;                    // of two values; infinite where there was none
  uint32_t least = kFloat ? F::kHighest - twice(1) : 0xFFFFFFFFu;  // magnitudes less one
  uint32_t values = 0;                                             // all that were taken
  uint32_t zeros = 0;                                              // among them; NaN and infinity are taken for zeros
  uint32_t subnormals = 0;
  uint32_t nan = 0, pos_inf = 0, neg_inf = 0;
  double sum = 0, squares = 0, l1 = 0;

  // The vectors are used up.
  template <int N>
  TTAP_HD void add(Vector (&vectors)[N]) {
    values += 8 * N;
    const uint32_t min_before = min, max_before = max;
    TTAP_UNROLL
    for (int i = 0; i < 4 * N; ++i) {
      min = F::min(min, word(vectors, i));
      max = F::max(max, word(vectors, i));
    }
    if constexpr (kFloat) {
      // What is not finite shows in the extremes; the sum has a half's highest bit where there is any.
      const uint32_t greatest = max_u16x2(min & kMagnitudes, max & kMagnitudes);
      const uint32_t is_infinite = (greatest + (kHighBits - twice(F::kInfinite))) & kHighBits;
      uint32_t smallest = F::kHighest;
      TTAP_UNROLL
      for (int i = 0; i < 4 * N; ++i) smallest = F::min_magnitude(smallest, word(vectors, i));
      smallest &= kMagnitudes;
      if ((is_small(smallest) | is_infinite) == 0) [[likely]] {
        least = min_u16x2(least, smallest - twice(1));
      } else {
        if (is_infinite != 0) take_apart(vectors, min_before, max_before);
        if ((is_zero(smallest) | is_infinite) != 0) smallest = count_zeros_apart(vectors);
        least = min_u16x2(least, smallest - twice(1));
        if (is_small(smallest) != 0) count_subnormals(vectors);
      }
    } else {
      count_zeros(vectors);
    }
    TTAP_UNROLL
    for (int i = 0; i < 4 * N; ++i) {
      take(F::low(word(vectors, i)));
      take(F::high(word(vectors, i)));
    }
  }

  // Whether a sketch may have to leave values out, of those that were taken; infinite ones are zeros by now.
  TTAP_HD bool some_beyond_sketch() const {
    if constexpr (F::kInfinite == 0x7C00) return false;  // f16 ends before the limit
    constexpr uint32_t kLimit = 0x5F80;                  // 2^64
    const uint32_t greatest = max_u16x2(min & kMagnitudes, max & kMagnitudes);
    return ((greatest + (kHighBits - twice(kLimit))) & kHighBits) != 0;
  }

  TTAP_HD LaneSums finish(double) const {
    LaneSums done;
    done.nan = nan;
    done.pos_inf = pos_inf;
    done.neg_inf = neg_inf;
    done.finite = values - nan - pos_inf - neg_inf;
    if (!kFloat && values == 0) return done;  // no integer stands for "none"
    done.zeros = zeros - nan - pos_inf - neg_inf;
    done.subnormals = subnormals;
    done.min = extreme(F::min(min, (min >> 16) | (min << 16)));
    done.max = extreme(F::max(max, (max >> 16) | (max << 16)));
    if (kFloat || zeros != values) {
      const uint32_t low = least & 0xFFFF;
      const uint32_t high = least >> 16;
      done.min_abs_nonzero = value_of_magnitude<F>((low < high ? low : high) + 1);
    }
    done.l1 = l1;
    done.sum.high = sum;
    done.squares.high = squares;
    return done;
  }

 private:
  static constexpr uint32_t kMagnitudes = 0x7FFF7FFFu;
  static constexpr uint32_t kHighBits = 0x80008000u;
  TTAP_HD static constexpr uint32_t twice(uint64_t half) { return static_cast<uint32_t>(half) * 0x00010001u; }

  TTAP_HD static double extreme(uint32_t word) { return F::value(word & 0xFFFF); }

  template <int N>
  TTAP_HD static uint32_t word(const Vector (&vectors)[N], int i) {
    return vectors[i / 4].word[i % 4];
  }

  struct Apart {
    uint32_t min, max;
    uint32_t nan = 0, pos_inf = 0, neg_inf = 0;
  };

  // Counts what is not finite and leaves zeros in its place; the extremes do not see those.
  template <int N>
  TTAP_HD void take_apart(Vector (&vectors)[N], uint32_t min_before, uint32_t max_before) {
    Apart apart{min_before, max_before};
    // A copy, so that the vectors themselves stay in registers.
    uint32_t words[4 * N];
    TTAP_UNROLL
    for (int i = 0; i < 4 * N; ++i) words[i] = word(vectors, i);
    take_words_apart(words, 4 * N, apart);
    TTAP_UNROLL
    for (int i = 0; i < 4 * N; ++i) vectors[i / 4].word[i % 4] = words[i];
    min = apart.min;
    max = apart.max;
    nan += apart.nan;
    pos_inf += apart.pos_inf;
    neg_inf += apart.neg_inf;
  }

  TTAP_HD static TTAP_APART void take_words_apart(uint32_t* words, int count, Apart& apart) {
#if defined(__CUDA_ARCH__)
#pragma unroll 1
#endif
    for (int i = 0; i < count; ++i) {
      uint32_t gone = 0;
      TTAP_UNROLL
      for (int shift = 0; shift < 32; shift += 16) {
        const uint32_t bits = (words[i] >> shift) & 0xFFFF;
        const uint32_t magnitude = bits & 0x7FFF;
        gone |= magnitude >= F::kInfinite ? 0xFFFFu << shift : 0;
        apart.nan += magnitude > F::kInfinite ? 1 : 0;
        apart.pos_inf += bits == F::kInfinite ? 1 : 0;
        apart.neg_inf += bits == (F::kInfinite | F::kSign) ? 1 : 0;
      }
      apart.min = F::min(apart.min, (words[i] & ~gone) | (F::kHighest & gone));
      apart.max = F::max(apart.max, (words[i] & ~gone) | (F::kLowest & gone));
      words[i] &= ~gone;
    }
  }

  // The highest bits of the halves that are zero or subnormal.
  TTAP_HD static uint32_t is_small(uint32_t magnitudes) {
    return ~(magnitudes + (kHighBits - twice(F::kMantissa + 1))) & kHighBits;
  }

  TTAP_HD static uint32_t is_zero(uint32_t magnitudes) { return ~(magnitudes + twice(0x7FFF)) & kHighBits; }

  // Gives the smallest magnitudes of the others: infinite where there are none.
  template <int N>
  TTAP_HD uint32_t count_zeros_apart(const Vector (&vectors)[N]) {
    uint32_t smallest = F::kHighest;
    uint32_t found = 0;
    TTAP_UNROLL
    for (int i = 0; i < 4 * N; ++i) {
      const uint32_t mask = F::is_zero(word(vectors, i));
      found -= mask;
      smallest = F::min_magnitude(smallest, word(vectors, i) | mask);  // a NaN does not count
    }
    // A mask of the low half is 2^16 − 1, so that the low half of the sum is its count; one of the high half is −2^16.
    const uint32_t low = found & 0xFFFF;
    const uint32_t high = ((found >> 16) + low) & 0xFFFF;
    zeros += low + high;
    return smallest & kMagnitudes;
  }

  // And what is smallest of the rest.
  template <int N>
  TTAP_HD void count_zeros(const Vector (&vectors)[N]) {
    uint32_t non_zeros = 0;
    TTAP_UNROLL
    for (int i = 0; i < 4 * N; ++i) {
      const uint32_t both = word(vectors, i);
      const uint32_t magnitudes = kFloat ? both & kMagnitudes : both;
      least = min_of_less_one_u16x2(magnitudes, least);
      if constexpr (F::kKind == LaneKind::kSigned) least = min_u16x2(~both, least);
      non_zeros += min_u16x2(magnitudes, 0x00010001u);
    }
    zeros += 8 * N - ((non_zeros & 0xFFFF) + (non_zeros >> 16));
  }

  TTAP_HD void take(double value) {
    sum += value;
    l1 += fabs(value);
    squares = fma(value, value, squares);
  }

  template <int N>
  TTAP_HD void count_subnormals(const Vector (&vectors)[N]) {
    constexpr uint32_t kBoth = twice(F::kMantissa);
    uint32_t found = 0;
    TTAP_UNROLL
    for (int i = 0; i < 4 * N; ++i) {
      // How far the magnitude less one is below the largest subnormal: zero for those that are none.
      const uint32_t below = kBoth - min_of_less_one_u16x2(word(vectors, i) & kMagnitudes, kBoth);
      found += min_u16x2(below, 0x00010001u);
    }
    subnormals += (found & 0xFFFF) + (found >> 16);
  }
};

}  // namespace ttap::cuda
