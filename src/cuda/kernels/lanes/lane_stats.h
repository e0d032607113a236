#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "cuda/kernels/lanes/packed_stats.h"
#include "fingerprint/sketch_places.h"

// The statistics that one lane of a kernel keeps, in few registers. Plain arithmetic, so that tests run it on the host.
//
// Sums are in double. Formats of more than 16 bits (packed_stats.h has the others) are summed relative to a number near
// the lane's own mean: where outliers among the lane's first values pull that number away, they are themselves the
// larger part of the lane's spread.
namespace ttap::cuda {

// One value at a time: the odd values at the end of a tensor.
struct ScalarStats {
  LaneSums sums = {};
  ShiftedSums found;
  HugeBatch huge;

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
    if (sums.finite == 0) found.shift = F::kMayBeHuge ? never_huge(value) : value;
    ++sums.finite;
    if (value < sums.min) sums.min = value;
    if (value > sums.max) sums.max = value;
    if (magnitude == 0)
      ++sums.zeros;
    else if (magnitude < sums.min_abs_nonzero)
      sums.min_abs_nonzero = magnitude;
    sums.l1 += magnitude;
    huge.add<F::kMayBeHuge>(value - found.shift, found.sum, found.squares);
  }

  template <class F>
  TTAP_HD LaneSums finish(double centre) const {
    LaneSums done = sums;
    if (sums.finite != 0) set_sums_about<F::kMayBeHuge>(done, centre, found, {{huge.sum, 0}, {huge.squares, 0}});
    return done;
  }
};

// ---- 32 and 64 bits ----

// FEW: the lane takes a few vectors, all at once. Then distances are from the tensor's centre, which is known before,
// and sums need not be moved there at the end.
template <class F, bool FEW = false>
struct WideStats {
  using Word = typename F::Word;
  using Native = decltype(F::native(Word{}));
  static constexpr int kPerVector = kVectorBytes / sizeof(Word);
  static constexpr bool kFloat = F::kKind == LaneKind::kFloat;
  using Magnitude = std::conditional_t<std::is_floating_point_v<Native>, Native, Word>;

  double centre = 0;         // where FEW
  double near = 0, off = 0;  // the same: centre + shift, and what rounding took off that

  Native min = highest(), max = lowest();
  Magnitude least = greatest();  // that is not zero
  uint32_t finite = 0, zeros = 0, subnormals = 0;
  uint32_t nan = 0, pos_inf = 0, neg_inf = 0;
  ShiftedSums found;
  double l1 = 0;
  HugeSums huge;

  // `each` is called with the number of every value and the value itself, which may be NaN or infinite.
  template <int N, class Each>
  TTAP_HD void add(const Vector (&vectors)[N], const Each& each) {
    constexpr int kCount = N * kPerVector;
    static_assert((kCount & (kCount - 1)) == 0);
    const double shift_before = found.shift;
    const Native min_before = min, max_before = max;
    if (finite == 0) [[unlikely]]
      set_shift(middle(F::native(word(vectors, 0)), F::native(word(vectors, kCount / 2)),
                       F::native(word(vectors, kCount - 1))));
    Magnitude batch_least = greatest();
    // Summed by themselves first, and by halves: thousands of equal roundings, one upon the other, would be felt, and
    // equal distances add up without any.
    double sums[kCount], squares[kCount], batch_l1 = 0;
    TTAP_UNROLL
    for (int i = 0; i < kCount; ++i) {
      const Native value = F::native(word(vectors, i));
      compare(value);
      batch_least = smaller(magnitude(value), batch_least);
      const double wide = static_cast<double>(value);
      each(i, wide);
      batch_l1 += fabs(wide);
      sums[i] = distance(wide);
      squares[i] = rounded_product(sums[i], sums[i]);
      TTAP_UNROLL
      for (int step = 1; (i + 1) % (2 * step) == 0; step *= 2) {  // whatever has come in full, so that little waits
        sums[i - 2 * step + 1] += sums[i - step + 1];
        squares[i - 2 * step + 1] += squares[i - step + 1];
      }
    }
    const double batch_sum = sums[0], batch_squares = squares[0];
    if constexpr (kFloat) {
      // A NaN or an infinity shows in the sum of magnitudes, what is huge there or in the squares: then all of this was
      // for nothing.
      const bool is_ordinary =
          F::kMayBeHuge ? batch_l1 + batch_squares < kHuge : batch_l1 < static_cast<double>(INFINITY);
      if (!is_ordinary) {
        min = min_before;
        max = max_before;
        found.shift = shift_before;
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
    add_batch(batch_sum, batch_squares);
    l1 += batch_l1;
    if (!(batch_least < smallest_ordinary())) {
      least = smaller(batch_least, least);
    } else {
      const Magnitude rest_least = count_zeros(vectors);
      least = smaller(rest_least, least);
      if constexpr (kFloat)
        if (rest_least < smallest_ordinary()) count_subnormals(vectors);
    }
  }

  // Whether a sketch may have to leave values out, of those that were taken.
  TTAP_HD bool some_beyond_sketch() const {
    const auto limit = static_cast<Native>(kSketchLimit);
    return !(max < limit && min > -limit && (nan | pos_inf | neg_inf) == 0);
  }

  TTAP_HD LaneSums finish(double about) const {
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
    if constexpr (FEW)
      set_sums_of_few<F::kMayBeHuge>(done, found, huge);
    else
      set_sums_about<F::kMayBeHuge>(done, about, found, huge);
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
    if constexpr (std::is_floating_point_v<Native>)
      return static_cast<Native>(INFINITY);
    else
      return F::kKind == LaneKind::kSigned ? static_cast<Native>(~Word{0} >> 1) : static_cast<Native>(~Word{0});
  }
  TTAP_HD static constexpr Native lowest() {
    if constexpr (std::is_floating_point_v<Native>)
      return -static_cast<Native>(INFINITY);
    else
      return F::kKind == LaneKind::kSigned ? static_cast<Native>(~(~Word{0} >> 1)) : Native{0};
  }

  // The most negative integer has a magnitude too: without a sign.
  TTAP_HD static Magnitude magnitude(Native value) {
    if constexpr (std::is_same_v<Native, float>)
      return fabsf(value);
    else if constexpr (std::is_same_v<Native, double>)
      return fabs(value);
    else
      return F::kKind == LaneKind::kSigned && static_cast<std::make_signed_t<Native>>(value) < 0
                 ? Word{0} - static_cast<Word>(value)
                 : static_cast<Word>(value);
  }
  TTAP_HD static constexpr Magnitude greatest() {
    if constexpr (std::is_floating_point_v<Magnitude>)
      return static_cast<Magnitude>(INFINITY);
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
    if constexpr (std::is_same_v<Magnitude, float>)
      return fminf(a, b);
    else
      return a < b ? a : b;
  }

  // Near the mean, for most; one outlier among them does not matter.
  TTAP_HD static double middle(Native a, Native b, Native c) {
    if constexpr (std::is_same_v<Native, float>) return fmaxf(fminf(a, b), fminf(fmaxf(a, b), c));
    const Native low = a < b ? a : b;
    const Native high = a < b ? b : a;
    return static_cast<double>(c < low ? low : c > high ? high : c);
  }
  TTAP_HD void set_shift(double value) {
    if constexpr (F::kMayBeHuge) value = never_huge(value);
    found.shift = FEW ? short_shift(value - centre) : value;
    if constexpr (FEW) {
      const DoubleSum place = exact_sum(centre, found.shift);
      near = place.high;
      off = place.rest;
    }
  }
  TTAP_HD void add_batch(double batch_sum, double batch_squares) {
    if constexpr (FEW) {
      found.sum += batch_sum;
      found.squares += batch_squares;
    } else {
      found.add_batch(batch_sum, batch_squares);
    }
  }
  // Of a value that is near the shift, or the centre and the shift: next to nothing of it is lost.
  TTAP_HD double distance(double value) const { return FEW ? (value - near) - off : value - found.shift; }

  TTAP_HD void compare(Native value) {
    if constexpr (std::is_same_v<Native, float>) {  // one instruction each
      min = fminf(value, min);
      max = fmaxf(value, max);
    } else {
      min = value < min ? value : min;
      max = value > max ? value : max;
    }
  }

  // Value by value.
  TTAP_HD TTAP_APART void take_apart(const Word* words, int count) {
    if (finite == 0) set_shift(middle_of_finite(words, count));
    HugeBatch batch_huge;
#if defined(__CUDA_ARCH__)
#pragma unroll 1
#endif
    for (int i = 0; i < count; ++i) {
      if (!is_finite(words[i])) {
        if ((words[i] & kMagnitude) > F::kInfinite)
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
      ++finite;
      double sum = 0, squares = 0;
      batch_huge.add<F::kMayBeHuge>(distance(wide), sum, squares);
      add_batch(sum, squares);
      l1 += fabs(wide);
    }
    if constexpr (F::kMayBeHuge) huge.add(batch_huge);
  }

  // As add() takes it, of those that are finite; zero where none is.
  TTAP_HD static double middle_of_finite(const Word* words, int count) {
    int all = 0;
#if defined(__CUDA_ARCH__)
#pragma unroll 1
#endif
    for (int i = 0; i < count; ++i) all += is_finite(words[i]) ? 1 : 0;
    const auto finite_one = [&](int number) {
#if defined(__CUDA_ARCH__)
#pragma unroll 1
#endif
      for (int i = 0; i < count; ++i)
        if (is_finite(words[i]) && number-- == 0) return F::native(words[i]);
      return Native{};
    };
    return middle(finite_one(0), finite_one(all / 2), finite_one(all - 1));
  }

  static constexpr Word kMagnitude = [] {
    if constexpr (kFloat) return static_cast<Word>(F::kSign - 1);
    return Word{};
  }();
  TTAP_HD static bool is_finite(Word bits) { return (bits & kMagnitude) < F::kInfinite; }

  TTAP_HD void look_at_small(Native value) {
    const Magnitude size = magnitude(value);
    if (size == 0)
      ++zeros;
    else
      least = smaller(size, least);
    if constexpr (kFloat)
      if (size < smallest_ordinary() && size != 0) ++subnormals;
  }

  // Gives the smallest magnitude of the others.
  template <int N>
  TTAP_HD Magnitude count_zeros(const Vector (&vectors)[N]) {
    Magnitude smallest = greatest();
    TTAP_UNROLL
    for (int i = 0; i < N * kPerVector; ++i) {
      const Magnitude size = magnitude(F::native(word(vectors, i)));
      if (size == 0)
        ++zeros;
      else
        smallest = smaller(size, smallest);
    }
    return smallest;
  }

  template <int N>
  TTAP_HD void count_subnormals(const Vector (&vectors)[N]) {
    TTAP_UNROLL
    for (int i = 0; i < N * kPerVector; ++i) {
      const Magnitude size = magnitude(F::native(word(vectors, i)));
      if (size < smallest_ordinary() && size != 0) ++subnormals;
    }
  }
};

}  // namespace ttap::cuda
