#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "cuda/kernels/lane_format.h"
#include "cuda/kernels/lane_hash.h"
#include "cuda/kernels/lane_sums.h"

// The statistics that one lane of a kernel keeps, in few registers. Plain arithmetic, so that tests run it on the host.
//
// Sums are in double. Squares of 16-bit formats are short (32 bits at most, 22 of a float): their plain sums are exact,
// or the values so far apart that nothing cancels, as long as a lane takes some thousands. Wider formats are summed
// relative to a number near the lane's own mean: where outliers among the lane's first values pull that number away,
// they are themselves the larger part of the lane's spread.
namespace ttap::cuda {

#if defined(__CUDACC__)
#define TTAP_APART __noinline__
#else
#define TTAP_APART
#endif

// One value at a time: the odd values at the end of a tensor.
struct ScalarStats {
  LaneSums sums = {};
  double shift = 0;
  double sum = 0;
  double squares = 0;

  template <class F>
  TTAP_HD void add(uint64_t bits) {
    if constexpr (F::kKind == LaneKind::kFloat) {
      const uint64_t magnitude = bits & (F::kSign - 1);
      if (magnitude >= F::kInfinite) {
        if (magnitude > F::kInfinite)
          ++sums.nan;
        else if (bits & F::kSign)
          ++sums.neg_inf;
        else
          ++sums.pos_inf;
        return;
      }
      if (magnitude != 0 && magnitude <= F::kMantissa) ++sums.subnormals;
    }
    const double value = F::value(bits);
    const double magnitude = fabs(value);
    if (sums.finite == 0) shift = value;
    ++sums.finite;
    if (value < sums.min) sums.min = value;
    if (value > sums.max) sums.max = value;
    if (magnitude == 0)
      ++sums.zeros;
    else if (magnitude < sums.min_abs_nonzero)
      sums.min_abs_nonzero = magnitude;
    sums.l1 += magnitude;
    const double offset = value - shift;
    sum += offset;
    squares += offset * offset;
  }

  TTAP_HD LaneSums finish(double centre) const {
    LaneSums done = sums;
    if (sums.finite != 0) set_sums_about(done, centre, shift, sum, squares);
    return done;
  }
};

// ---- 16 bits: two values a word ----

template <class F>
struct PackedStats {
  static constexpr bool kFloat = F::kKind == LaneKind::kFloat;

  uint32_t min = F::kHighest, max = F::kLowest;  // of two values; infinite where there was none
  uint32_t least = kFloat ? F::kHighest - twice(1) : 0xFFFFFFFFu;  // magnitudes less one
  uint32_t values = 0;                           // all that were taken
  uint32_t zeros = 0;                            // among them; NaN and infinity are taken for zeros
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
      uint32_t smallest = F::kHighest;
      TTAP_UNROLL
      for (int i = 0; i < 4 * N; ++i) smallest = F::min_magnitude(smallest, word(vectors, i));
      smallest &= kMagnitudes;
      // What is not finite shows in the extremes.
      const uint32_t greatest = max_u16x2(min & kMagnitudes, max & kMagnitudes);
      // Both sums have a half's highest bit where it is out of the ordinary, or is not.
      const uint32_t is_normal = smallest + (kHighBits - twice(F::kMantissa + 1));
      const uint32_t is_infinite = greatest + (kHighBits - twice(F::kInfinite));
      if (((~is_normal | is_infinite) & kHighBits) == 0) {
        least = min_u16x2(least, smallest - twice(1));
      } else {
        if ((is_infinite & kHighBits) != 0) take_apart(vectors, min_before, max_before);
        if (!found_only_zeros(vectors)) {
          count_zeros(vectors);
          count_subnormals(vectors);
        }
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

  TTAP_HD LaneSums finish(double) const {
    LaneSums done;
    done.nan = nan;
    done.pos_inf = pos_inf;
    done.neg_inf = neg_inf;
    done.finite = values - nan - pos_inf - neg_inf;
    if (done.finite == 0) return done;
    done.zeros = zeros - nan - pos_inf - neg_inf;
    done.subnormals = subnormals;
    done.min = extreme(F::min(min, (min >> 16) | (min << 16)));
    done.max = extreme(F::max(max, (max >> 16) | (max << 16)));
    if (zeros != values) {
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

  // Zeros are common: where nothing else is below the least magnitude so far, and that is not subnormal, they are
  // counted in few instructions.
  template <int N>
  TTAP_HD bool found_only_zeros(const Vector (&vectors)[N]) {
    const uint32_t limit = least + twice(1);
    uint32_t below_limit = 0;
    uint32_t found = 0;
    TTAP_UNROLL
    for (int i = 0; i < 4 * N; ++i) {
      const uint32_t mask = F::is_less_in_magnitude(word(vectors, i), limit);
      below_limit |= word(vectors, i) & mask;
      found -= mask;
    }
    const uint32_t is_normal = limit + (kHighBits - twice(F::kMantissa + 1));
    if ((below_limit & kMagnitudes) != 0 || (~is_normal & kHighBits) != 0) return false;
    // A mask of the low half is 2^16 − 1, so that the low half of the sum is its count; one of the high half is −2^16.
    const uint32_t low = found & 0xFFFF;
    const uint32_t high = ((found >> 16) + low) & 0xFFFF;
    zeros += low + high;
    return true;
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

// ---- 32 and 64 bits ----

template <class F>
struct WideStats {
  using Word = typename F::Word;
  using Native = decltype(F::native(Word{}));
  static constexpr int kPerVector = kVectorBytes / sizeof(Word);
  static constexpr bool kFloat = F::kKind == LaneKind::kFloat;
  using Magnitude = std::conditional_t<kFloat, Native, Word>;

  Native min = highest(), max = lowest();
  Magnitude least = greatest();  // that is not zero
  uint32_t finite = 0, zeros = 0, subnormals = 0;
  uint32_t nan = 0, pos_inf = 0, neg_inf = 0;
  double shift = 0, sum = 0, squares = 0, l1 = 0;

  template <int N>
  TTAP_HD void add(const Vector (&vectors)[N]) {
    constexpr int kCount = N * kPerVector;
    const double shift_before = shift;
    const Native min_before = min, max_before = max;
    if (finite == 0)
      shift =
          middle(F::value(word(vectors, 0)), F::value(word(vectors, kCount / 2)), F::value(word(vectors, kCount - 1)));
    Magnitude batch_least = greatest();
    // Summed by themselves first: thousands of equal roundings, one upon the other, would be felt.
    double batch_sum = 0, batch_squares = 0, batch_l1 = 0;
    TTAP_UNROLL
    for (int i = 0; i < kCount; ++i) {
      const Native value = F::native(word(vectors, i));
      compare(value);
      batch_least = smaller(magnitude(value), batch_least);
      const double wide = static_cast<double>(value);
      const double offset = wide - shift;
      batch_sum += offset;
      batch_squares = fma(offset, offset, batch_squares);
      batch_l1 += fabs(wide);
    }
    if constexpr (kFloat) {
      // A NaN or an infinity shows in the sum of magnitudes: then all of this was for nothing.
      if (!(batch_l1 < static_cast<double>(INFINITY))) {
        min = min_before;
        max = max_before;
        shift = shift_before;
        // Copies, so that the vectors and this stay in registers.
        Word words[kCount];
        TTAP_UNROLL
        for (int i = 0; i < kCount; ++i) words[i] = word(vectors, i);
        WideStats copy = *this;
        copy.take_apart(words, kCount);
        *this = copy;
        return;
      }
    }
    finite += kCount;
    sum += batch_sum;
    squares += batch_squares;
    l1 += batch_l1;
    if (!(batch_least < smallest_ordinary()))
      least = smaller(batch_least, least);
    else if (!found_only_zeros(vectors))
      count_small(vectors);
  }

  TTAP_HD LaneSums finish(double centre) const {
    LaneSums done;
    done.nan = nan;
    done.pos_inf = pos_inf;
    done.neg_inf = neg_inf;
    done.finite = finite;
    if (finite == 0) return done;
    done.zeros = zeros;
    done.subnormals = subnormals;
    done.min = static_cast<double>(min);
    done.max = static_cast<double>(max);
    if (zeros != finite) done.min_abs_nonzero = static_cast<double>(least);
    done.l1 = l1;
    set_sums_about(done, centre, shift, sum, squares);
    return done;
  }

 private:
  template <int N>
  TTAP_HD static Word word(const Vector (&vectors)[N], int i) {
    const Vector& vector = vectors[i / kPerVector];
    const int at = i % kPerVector;
    if constexpr (sizeof(Word) == 4)
      return vector.word[at];
    else
      return vector.word[2 * at] | static_cast<uint64_t>(vector.word[2 * at + 1]) << 32;
  }

  TTAP_HD static constexpr Native highest() {
    if constexpr (kFloat)
      return static_cast<Native>(INFINITY);
    else
      return F::kKind == LaneKind::kSigned ? static_cast<Native>(~Word{0} >> 1) : static_cast<Native>(~Word{0});
  }
  TTAP_HD static constexpr Native lowest() {
    if constexpr (kFloat)
      return -static_cast<Native>(INFINITY);
    else
      return F::kKind == LaneKind::kSigned ? static_cast<Native>(~(~Word{0} >> 1)) : Native{0};
  }

  // The most negative integer has a magnitude too: without a sign.
  TTAP_HD static Magnitude magnitude(Native value) {
    if constexpr (sizeof(Word) == 4 && kFloat)
      return fabsf(value);
    else if constexpr (kFloat)
      return fabs(value);
    else
      return F::kKind == LaneKind::kSigned && static_cast<std::make_signed_t<Native>>(value) < 0
                 ? Word{0} - static_cast<Word>(value)
                 : static_cast<Word>(value);
  }
  TTAP_HD static constexpr Magnitude greatest() {
    if constexpr (kFloat)
      return highest();
    else
      return ~Word{0};
  }
  // Anything below is zero, or subnormal.
  TTAP_HD static Magnitude smallest_ordinary() {
    if constexpr (kFloat)
      return F::native(static_cast<Word>(F::kMantissa + 1));
    else
      return 1;
  }
  TTAP_HD static Magnitude smaller(Magnitude a, Magnitude b) {
    if constexpr (sizeof(Word) == 4 && kFloat)
      return fminf(a, b);
    else
      return a < b ? a : b;
  }

  // Near the mean, for most; one outlier among them does not matter.
  TTAP_HD static double middle(double a, double b, double c) {
    const double low = a < b ? a : b;
    const double high = a < b ? b : a;
    return c < low ? low : c > high ? high : c;
  }

  TTAP_HD void compare(Native value) {
    if constexpr (sizeof(Word) == 4 && kFloat) {  // one instruction each
      min = fminf(value, min);
      max = fmaxf(value, max);
    } else {
      min = value < min ? value : min;
      max = value > max ? value : max;
    }
  }

  // Value by value.
  TTAP_HD TTAP_APART void take_apart(const Word* words, int count) {
#if defined(__CUDA_ARCH__)
#pragma unroll 1
#endif
    for (int i = 0; i < count; ++i) {
      const Word bits = words[i] & static_cast<Word>(F::kSign - 1);
      if (bits >= F::kInfinite) {
        if (bits > F::kInfinite)
          ++nan;
        else if (words[i] & static_cast<Word>(F::kSign))
          ++neg_inf;
        else
          ++pos_inf;
        continue;
      }
      const Native value = F::native(words[i]);
      compare(value);
      look_at_small(value);
      const double wide = static_cast<double>(value);
      if (finite++ == 0) shift = wide;
      const double offset = wide - shift;
      sum += offset;
      squares = fma(offset, offset, squares);
      l1 += fabs(wide);
    }
  }

  TTAP_HD void look_at_small(Native value) {
    const Magnitude size = magnitude(value);
    if (size == 0)
      ++zeros;
    else
      least = smaller(size, least);
    if constexpr (kFloat)
      if (size < smallest_ordinary() && size != 0) ++subnormals;
  }

  // As for 16 bits.
  template <int N>
  TTAP_HD bool found_only_zeros(const Vector (&vectors)[N]) {
    Word below_least = 0;
    uint32_t found = 0;
    TTAP_UNROLL
    for (int i = 0; i < N * kPerVector; ++i) {
      const Word bits = word(vectors, i);
      const uint32_t mask = is_less(magnitude(F::native(bits)), least);
      below_least |= bits & (mask | static_cast<Word>(mask) << (8 * sizeof(Word) - 32));
      found -= mask;
    }
    if constexpr (kFloat) {
      below_least &= static_cast<Word>(F::kSign - 1);
      if (least < smallest_ordinary()) return false;
    }
    if (below_least != 0) return false;
    zeros += found;
    return true;
  }

  // All bits set, or none.
  TTAP_HD static uint32_t is_less(Magnitude a, Magnitude b) {
#if defined(__CUDA_ARCH__)
    if constexpr (sizeof(Word) == 4 && kFloat) {
      uint32_t mask;
      asm("set.lt.u32.f32 %0, %1, %2;" : "=r"(mask) : "f"(a), "f"(b));
      return mask;
    }
#endif
    return a < b ? 0xFFFFFFFFu : 0;
  }

  template <int N>
  TTAP_HD void count_small(const Vector (&vectors)[N]) {
    TTAP_UNROLL
    for (int i = 0; i < N * kPerVector; ++i) look_at_small(F::native(word(vectors, i)));
  }
};

}  // namespace ttap::cuda
