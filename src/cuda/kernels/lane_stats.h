#pragma once

#include <cmath>
#include <cstdint>

#include "cuda/kernels/lane_format.h"
#include "cuda/kernels/lane_hash.h"
#include "fingerprint/stats_part.h"

// The statistics that one lane of a kernel keeps, in few registers. Plain arithmetic, so that tests run it on the host.
//
// Sums are in double. Squares of 16-bit formats are short (32 bits at most, 22 of a float): their plain sums are exact,
// or the values so far apart that nothing cancels, as long as a lane takes some thousands. Wider formats are summed
// relative to a number near the lane's own mean: where outliers among the lane's first values pull that number away,
// they are themselves the larger part of the lane's spread.
namespace ttap::cuda {

// Bits that are no number: they lose every comparison of floats.
template <class F>
TTAP_HD constexpr uint32_t nothing_of_16_bits_twice() {
  return F::kKind == LaneKind::kFloat ? 0x7FFF7FFFu : 0;
}

// A product that is not fused with what is added to it, where what rounding took off it is asked for.
TTAP_HD inline double rounded_product(double a, double b) {
#if defined(__CUDA_ARCH__)
  return __dmul_rn(a, b);
#else
  return a * b;  // the host fuses nothing by itself
#endif
}

// One value at a time: the odd values at the end of a tensor.
struct ScalarStats {
  StatsPart part = {};
  double shift = 0;
  double sum = 0;
  double squares = 0;

  template <class F>
  TTAP_HD void add(uint64_t bits) {
    if constexpr (F::kKind == LaneKind::kFloat) {
      const uint64_t magnitude = bits & (F::kSign - 1);
      if (magnitude >= F::kInfinite) {
        if (magnitude > F::kInfinite)
          ++part.nan;
        else if (bits & F::kSign)
          ++part.neg_inf;
        else
          ++part.pos_inf;
        return;
      }
      if (magnitude != 0 && magnitude <= F::kMantissa) ++part.subnormals;
    }
    const double value = F::value(bits);
    const double magnitude = fabs(value);
    if (part.finite == 0) shift = value;
    ++part.finite;
    if (value < part.min) part.min = value;
    if (value > part.max) part.max = value;
    if (magnitude == 0)
      ++part.zeros;
    else if (magnitude < part.min_abs_nonzero)
      part.min_abs_nonzero = magnitude;
    part.l1 += magnitude;
    const double offset = value - shift;
    sum += offset;
    squares += offset * offset;
  }

  TTAP_HD StatsPart finish() const {
    StatsPart done = part;
    if (part.finite == 0) return done;
    const double count = static_cast<double>(part.finite);
    set_mean(done, shift, sum / count);
    done.m2 = squares - sum * sum / count;
    if (done.m2 < 0) done.m2 = 0;
    return done;
  }
};

// ---- 16 bits: two values a word ----

template <class F>
struct PackedStats {
  uint32_t min = nothing_of_16_bits_twice<F>(), max = nothing_of_16_bits_twice<F>();
  uint32_t least = 0xFFFFFFFFu;  // magnitudes less one
  uint32_t values = 0;           // all that were taken
  uint32_t non_zero = 0;         // among them; NaN and infinity are not
  uint32_t subnormals = 0;
  uint32_t nan = 0, pos_inf = 0, neg_inf = 0;
  double sum = 0, squares = 0, l1 = 0;

  // The vectors are used up.
  template <int N>
  TTAP_HD void add(Vector (&vectors)[N]) {
    if constexpr (F::kKind != LaneKind::kFloat) {
      if (values == 0) min = max = vectors[0].word[0];
    }
    values += 8 * N;
    if constexpr (F::kKind == LaneKind::kFloat) {
      uint32_t greatest = 0;
      TTAP_UNROLL
      for (int i = 0; i < 4 * N; ++i) greatest = max_u16x2(greatest, word(vectors, i) & 0x7FFF7FFFu);
      if ((greatest & 0xFFFF) >= F::kInfinite || (greatest >> 16) >= F::kInfinite) {
        // Zeros in the place of what is not finite; the extremes must not see those.
        TTAP_UNROLL
        for (int i = 0; i < 4 * N; ++i) {
          const uint32_t gone = count_not_finite(word(vectors, i));
          compare(word(vectors, i) | (gone & 0x7FFF7FFFu));
          vectors[i / 4].word[i % 4] &= ~gone;
        }
      } else {
        compare_all(vectors);
      }
    } else {
      compare_all(vectors);
    }
    add_finite(vectors);
  }

  TTAP_HD StatsPart finish() const {
    StatsPart part;
    part.nan = nan;
    part.pos_inf = pos_inf;
    part.neg_inf = neg_inf;
    part.finite = values - nan - pos_inf - neg_inf;
    if (part.finite == 0) return part;
    part.zeros = part.finite - non_zero;
    part.subnormals = subnormals;
    part.min = extreme(F::min(min, (min >> 16) | (min << 16)));
    part.max = extreme(F::max(max, (max >> 16) | (max << 16)));
    if (non_zero != 0) {
      const uint32_t low = least & 0xFFFF;
      const uint32_t high = least >> 16;
      part.min_abs_nonzero = value_of_magnitude<F>((low < high ? low : high) + 1);
    }
    // Only the last subtraction needs twice the precision.
    const double n = static_cast<double>(part.finite);
    part.mean = sum / n;
    part.mean_rest = fma(-part.mean, n, sum) / n;
    const double a = rounded_product(n, squares);
    const double b = rounded_product(sum, sum);
    const double a_rest = fma(n, squares, -a);
    const double b_rest = fma(sum, sum, -b);
    part.m2 = ((a - b) + (a_rest - b_rest)) / n;
    if (part.m2 < 0) part.m2 = 0;
    part.l1 = l1;
    return part;
  }

 private:
  TTAP_HD static double extreme(uint32_t word) { return F::value(word & 0xFFFF); }

  template <int N>
  TTAP_HD static uint32_t word(const Vector (&vectors)[N], int i) {
    return vectors[i / 4].word[i % 4];
  }

  TTAP_HD void compare(uint32_t values_of_word) {
    min = F::min(min, values_of_word);
    max = F::max(max, values_of_word);
  }

  template <int N>
  TTAP_HD void compare_all(const Vector (&vectors)[N]) {
    TTAP_UNROLL
    for (int i = 0; i < 4 * N; ++i) compare(word(vectors, i));
  }

  // Gives all ones where a value is not finite.
  TTAP_HD uint32_t count_not_finite(uint32_t both) {
    uint32_t found = 0;
    TTAP_UNROLL
    for (int shift = 0; shift < 32; shift += 16) {
      const uint32_t bits = (both >> shift) & 0xFFFF;
      const uint32_t magnitude = bits & 0x7FFF;
      found |= magnitude >= F::kInfinite ? 0xFFFFu << shift : 0;
      nan += magnitude > F::kInfinite ? 1 : 0;
      pos_inf += bits == F::kInfinite ? 1 : 0;
      neg_inf += bits == (F::kInfinite | F::kSign) ? 1 : 0;
    }
    return found;
  }

  // All but the extremes.
  template <int N>
  TTAP_HD void add_finite(const Vector (&vectors)[N]) {
    uint32_t non_zeros = 0;
    uint32_t batch_least = 0xFFFFFFFFu;
    TTAP_UNROLL
    for (int i = 0; i < 4 * N; ++i) {
      const uint32_t both = word(vectors, i);
      const uint32_t magnitudes = F::kKind == LaneKind::kFloat ? both & 0x7FFF7FFFu : both;
      batch_least = min_of_less_one_u16x2(magnitudes, batch_least);
      if constexpr (F::kKind == LaneKind::kSigned) batch_least = min_u16x2(~both, batch_least);
      non_zeros += min_u16x2(magnitudes, 0x00010001u);
      take(static_cast<double>(F::low(both)));
      take(static_cast<double>(F::high(both)));
    }
    non_zero += (non_zeros & 0xFFFF) + (non_zeros >> 16);
    least = min_u16x2(least, batch_least);
    if constexpr (F::kKind == LaneKind::kFloat) {
      if ((batch_least & 0xFFFF) < F::kMantissa || (batch_least >> 16) < F::kMantissa) count_subnormals(vectors);
    }
  }

  TTAP_HD void take(double value) {
    sum += value;
    l1 += fabs(value);
    squares = fma(value, value, squares);
  }

  template <int N>
  TTAP_HD void count_subnormals(const Vector (&vectors)[N]) {
    TTAP_UNROLL
    for (int i = 0; i < 4 * N; ++i) {
      const uint32_t magnitudes = word(vectors, i) & 0x7FFF7FFFu;
      subnormals += ((magnitudes - 1) & 0xFFFF) < F::kMantissa ? 1 : 0;
      subnormals += (((magnitudes >> 16) - 1) & 0xFFFF) < F::kMantissa ? 1 : 0;
    }
  }
};

// ---- 32 and 64 bits ----

template <class F>
struct WideStats {
  using Word = typename F::Word;
  using Native = decltype(F::native(Word{}));
  static constexpr int kPerVector = kVectorBytes / sizeof(Word);
  static constexpr bool kFloat = F::kKind == LaneKind::kFloat;

  Native min = {}, max = {};
  Word least = ~Word{0};
  uint32_t values = 0, non_zero = 0, subnormals = 0;
  uint32_t nan = 0, pos_inf = 0, neg_inf = 0;
  double shift = 0, sum = 0, squares = 0, l1 = 0;

  template <int N>
  TTAP_HD void add(const Vector (&vectors)[N]) {
    bool all_finite = true;
    if constexpr (kFloat) {
      Word greatest = 0;
      TTAP_UNROLL
      for (int i = 0; i < N * kPerVector; ++i) {
        const Word magnitude = word(vectors, i) & static_cast<Word>(F::kSign - 1);
        greatest = magnitude > greatest ? magnitude : greatest;
      }
      all_finite = greatest < F::kInfinite;
    }
    if (finite() == 0) start(vectors);
    values += N * kPerVector;
    if (all_finite)
      add_values<true>(vectors);
    else
      add_values<false>(vectors);
  }

  TTAP_HD StatsPart finish() const {
    StatsPart part;
    part.nan = nan;
    part.pos_inf = pos_inf;
    part.neg_inf = neg_inf;
    part.finite = finite();
    if (part.finite == 0) return part;
    part.zeros = part.finite - non_zero;
    part.subnormals = subnormals;
    part.min = static_cast<double>(min);
    part.max = static_cast<double>(max);
    if (non_zero != 0) part.min_abs_nonzero = value_of_magnitude<F>(static_cast<Word>(least + 1));
    const double n = static_cast<double>(part.finite);
    set_mean(part, shift, sum / n);
    part.m2 = squares - sum * sum / n;
    if (part.m2 < 0) part.m2 = 0;
    part.l1 = l1;
    return part;
  }

 private:
  TTAP_HD uint32_t finite() const { return values - nan - pos_inf - neg_inf; }

  template <int N>
  TTAP_HD static Word word(const Vector (&vectors)[N], int i) {
    const Vector& vector = vectors[i / kPerVector];
    const int at = i % kPerVector;
    if constexpr (sizeof(Word) == 4)
      return vector.word[at];
    else
      return vector.word[2 * at] | static_cast<uint64_t>(vector.word[2 * at + 1]) << 32;
  }

  TTAP_HD static bool is_finite(Word bits) {
    if constexpr (kFloat)
      return (bits & static_cast<Word>(F::kSign - 1)) < F::kInfinite;
    else
      return true;
  }

  // The first finite values say where the mean is about: the middle one of three means, so that one outlier does not.
  template <int N>
  TTAP_HD void start(const Vector (&vectors)[N]) {
    double total[3] = {};
    uint32_t count[3] = {};
    TTAP_UNROLL
    for (int i = 0; i < N * kPerVector; ++i) {
      const Word bits = word(vectors, i);
      if (!is_finite(bits)) continue;
      min = max = F::native(bits);
      total[i % 3] += F::value(bits);
      ++count[i % 3];
    }
    const uint32_t all = count[0] + count[1] + count[2];
    if (all == 0) return;
    const double mean = (total[0] + total[1] + total[2]) / static_cast<double>(all);
    const double a = count[0] == 0 ? mean : total[0] / static_cast<double>(count[0]);
    const double b = count[1] == 0 ? mean : total[1] / static_cast<double>(count[1]);
    const double c = count[2] == 0 ? mean : total[2] / static_cast<double>(count[2]);
    const double low = a < b ? a : b;
    const double high = a < b ? b : a;
    shift = c < low ? low : c > high ? high : c;
    if (!(fabs(shift) < static_cast<double>(INFINITY))) shift = 0;  // a sum was beyond double
  }

  template <bool ALL_FINITE, int N>
  TTAP_HD void add_values(const Vector (&vectors)[N]) {
    Word batch_least = ~Word{0};
    // Summed by themselves first: thousands of equal roundings, one upon the other, would be felt.
    double batch_sum = 0, batch_squares = 0, batch_l1 = 0;
    TTAP_UNROLL
    for (int i = 0; i < N * kPerVector; ++i) {
      const Word bits = word(vectors, i);
      if constexpr (!ALL_FINITE) {
        if (!is_finite(bits)) {
          count_not_finite(bits);
          continue;
        }
      }
      const Native value = F::native(bits);
      if constexpr (sizeof(Word) == 4 && kFloat) {  // one instruction each
        min = fminf(value, min);
        max = fmaxf(value, max);
      } else {
        min = value < min ? value : min;
        max = value > max ? value : max;
      }
      const Word less_one = magnitude_less_one<F>(bits);
      batch_least = less_one < batch_least ? less_one : batch_least;
      if (less_one != ~Word{0}) ++non_zero;
      const double wide = static_cast<double>(value);
      const double offset = wide - shift;
      batch_sum += offset;
      batch_squares = fma(offset, offset, batch_squares);
      batch_l1 += fabs(wide);
    }
    sum += batch_sum;
    squares += batch_squares;
    l1 += batch_l1;
    least = batch_least < least ? batch_least : least;
    if constexpr (kFloat) {
      if (batch_least < F::kMantissa) count_subnormals(vectors);
    }
  }

  TTAP_HD void count_not_finite(Word bits) {
    if constexpr (kFloat) {
      if ((bits & static_cast<Word>(F::kSign - 1)) > F::kInfinite)
        ++nan;
      else if (bits & static_cast<Word>(F::kSign))
        ++neg_inf;
      else
        ++pos_inf;
    }
  }

  template <int N>
  TTAP_HD void count_subnormals(const Vector (&vectors)[N]) {
    TTAP_UNROLL
    for (int i = 0; i < N * kPerVector; ++i)
      subnormals += magnitude_less_one<F>(word(vectors, i)) < F::kMantissa ? 1 : 0;
  }
};

}  // namespace ttap::cuda
