// Not a header of its own: the kernels for HWY_TARGET, compiled once for each (vector_pair_kernels.cpp).
#if defined(TTAP_VECTOR_PAIR_KERNELS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TTAP_VECTOR_PAIR_KERNELS_INL
#undef TTAP_VECTOR_PAIR_KERNELS_INL
#else
#define TTAP_VECTOR_PAIR_KERNELS_INL
#endif

// Highway's emulation of vectors is no faster than the plain code of pair_kernels.cpp.
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

HWY_BEFORE_NAMESPACE();
namespace ttap {
namespace pairs {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Doubles = hn::ScalableTag<double>;
using Words = hn::RebindToUnsigned<Doubles>;
using Integers = hn::RebindToSigned<Doubles>;
using DoubleVector = hn::Vec<Doubles>;
using WordVector = hn::Vec<Words>;

HWY_INLINE size_t padded(size_t count) {
  const size_t lanes = hn::Lanes(Doubles());
  return (count + lanes - 1) / lanes * lanes;
}

// ---- steps between two values ----

// As ulp_index() and ulp_distance(). F64: the doubles' own steps.
template <bool F64>
struct Steps {
  explicit HWY_INLINE Steps(const UlpScale& scale)
      : shift(scale.shift()),
        // Where the values are no floats the shift is 0, and none of this is used.
        rounding(hn::Set(Words(), F64 || shift == 0 ? 0 : (uint64_t{1} << (shift - 1)) - 1)),
        odd(hn::Set(Words(), scale.always_odd())),
        offset(hn::Set(Words(), scale.offset())),
        first_normal(hn::Set(Integers(), static_cast<int64_t>(scale.first_normal()))),
        subnormal_round(hn::Set(Doubles(), F64 ? 0 : scale.subnormal_round())),
        beyond(hn::Set(Integers(), static_cast<int64_t>(scale.largest + 1))) {}

  HWY_INLINE hn::Vec<Integers> index(DoubleVector value) const {
    const Words d;
    const Integers di;
    const auto magnitude = hn::Abs(value);
    const auto bits = hn::BitCast(d, magnitude);
    hn::Vec<Integers> found;
    if constexpr (F64) {
      found = hn::BitCast(di, bits);
    } else {
      const auto kept = hn::ShiftRightSame(bits, shift);
      const auto is_odd = hn::And(hn::Or(kept, odd), hn::Set(d, uint64_t{1}));
      const auto rounded = hn::ShiftRightSame(hn::Add(bits, hn::Add(rounding, is_odd)), shift);
      const auto normal = hn::BitCast(di, hn::Sub(rounded, offset));
      const auto subnormal =
          hn::Sub(hn::BitCast(di, hn::Add(magnitude, subnormal_round)), hn::BitCast(di, subnormal_round));
      found = hn::IfThenElse(hn::Lt(hn::BitCast(di, bits), first_normal), subnormal, normal);
      found = hn::Min(found, beyond);
    }
    const auto negative = hn::BroadcastSignBit(hn::BitCast(di, value));
    return hn::Sub(hn::Xor(found, negative), negative);
  }

  HWY_INLINE WordVector distance(DoubleVector a, DoubleVector b) const {
    const Words d;
    const auto ia = index(a);
    const auto ib = index(b);
    const auto difference = hn::Sub(ia, ib);
    if constexpr (F64) {
      // May need all 64 bits.
      return hn::BitCast(d, hn::IfThenElse(hn::Lt(ia, ib), hn::Neg(difference), difference));
    } else {
      return hn::BitCast(d, hn::Abs(difference));
    }
  }

  int shift;
  WordVector rounding, odd, offset;
  hn::Vec<Integers> first_normal;
  DoubleVector subnormal_round;
  hn::Vec<Integers> beyond;
};

template <class T>
void keep(UlpCounts& counts, const T* distances, size_t count) {
  if (counts.kept.size() + count <= kMostKeptUlps)
    counts.kept.insert(counts.kept.end(), distances, distances + count);
  else
    counts.all_kept = false;
}

// Counts distances into the bins of a window. What falls into it is few, as a rule, and put aside first.
class WindowCounter {
 public:
  HWY_INLINE WindowCounter(const UlpWindow& window, UlpCounts& counts)
      : window_(window),
        counts_(counts),
        low_(hn::Set(Words(), window.low)),
        span_(hn::Set(Words(), window.high - window.low)) {}

  HWY_INLINE void add(WordVector distance) {
    const Words d;
    const auto from_low = hn::Sub(distance, low_);
    below_ += hn::CountTrue(d, hn::Lt(distance, low_));
    // Below the window the difference has wrapped around and is above it, too.
    const auto within = hn::Not(hn::Lt(span_, from_low));
    if (hn::AllFalse(d, within)) return;
    if (window_.high == window_.low)
      within_ += hn::CountTrue(d, within);
    else
      within_ += hn::CompressStore(from_low, within, d, aside_ + within_);
  }
  // Distance 0, for a whole vector.
  HWY_INLINE void add_zeros() { below_ += hn::Lanes(Words()); }

  HWY_INLINE void finish() {
    counts_.below += below_;
    if (window_.high == window_.low) {
      counts_.bins[0] += within_;
    } else {
      for (size_t i = 0; i < within_; ++i) ++counts_.bins[aside_[i] >> window_.shift];
      if (window_.shift != 0) keep(counts_, aside_, within_);
    }
  }

 private:
  const UlpWindow& window_;
  UlpCounts& counts_;
  WordVector low_, span_;
  uint64_t below_ = 0;
  size_t within_ = 0;
  HWY_ALIGN uint64_t aside_[kPieceValues + 2 * kPiecePadding];
};

// ---- the same from the bits ----

// Distances of formats of up to 32 bits whose bits are their numbers.
template <class Word>
uint64_t count_words(const PairPiece& piece, const PairRules& rules, UlpCounts& counts) {
  const hn::ScalableTag<uint32_t> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<Word, decltype(d)> from;
  constexpr int kShift = 32 - 8 * static_cast<int>(sizeof(Word));
  const size_t lanes = hn::Lanes(d);
  // A window beyond what there can be counts nothing, and all is below it.
  const UlpWindow& window = rules.window;
  constexpr uint64_t kMost = 0xFFFFFFFF;
  const bool reachable = window.low <= kMost;
  const auto low = hn::Set(d, static_cast<uint32_t>(std::min(window.low, kMost)));
  const auto span = hn::Set(d, static_cast<uint32_t>(std::min(window.high, kMost) - std::min(window.low, kMost)));
  const auto magnitude_bits = hn::Set(di, 0x7FFFFFFF);
  const auto nonfinite = hn::Set(di, static_cast<int32_t>(rules.words.nonfinite));
  auto most = hn::Zero(d);
  uint64_t below = 0;
  uint64_t left_out = 0;
  size_t within_count = 0;
  HWY_ALIGN uint32_t aside[kPieceValues + 4 * kPiecePadding];
  const auto load = [&](const Word* words) HWY_ATTR {
    if constexpr (sizeof(Word) == 4) {
      return hn::BitCast(di, hn::LoadU(d, words));
    } else {
      return hn::BitCast(di, hn::ShiftLeft<kShift>(hn::PromoteTo(d, hn::LoadU(from, words))));
    }
  };
  const auto number = [&](auto bits) HWY_ATTR {
    const auto sign = hn::BroadcastSignBit(bits);
    return hn::Sub(hn::Xor(hn::And(bits, magnitude_bits), sign), sign);
  };
  const auto take = [&](const Word* words_a, const Word* words_b) HWY_ATTR {
    auto a = load(words_a);
    auto b = load(words_b);
    const auto finite =
        hn::And(hn::Lt(hn::And(a, magnitude_bits), nonfinite), hn::Lt(hn::And(b, magnitude_bits), nonfinite));
    if (!hn::AllTrue(di, finite)) {
      left_out += lanes - hn::CountTrue(di, finite);
      a = hn::IfThenElseZero(finite, a);
      b = hn::IfThenElseZero(finite, b);
    }
    const auto number_a = number(a);
    const auto number_b = number(b);
    const auto steps =
        hn::ShiftRight<kShift>(hn::BitCast(d, hn::Sub(hn::Max(number_a, number_b), hn::Min(number_a, number_b))));
    most = hn::Max(most, steps);
    below += hn::CountTrue(d, hn::Lt(steps, low));
    const auto from_low = hn::Sub(steps, low);
    const auto within = hn::Not(hn::Lt(span, from_low));
    if (hn::AllFalse(d, within)) return;
    if (window.high == window.low)
      within_count += hn::CountTrue(d, within);
    else
      within_count += hn::CompressStore(from_low, within, d, aside + within_count);
  };
  const auto* a = reinterpret_cast<const Word*>(piece.words_a);
  const auto* b = reinterpret_cast<const Word*>(piece.words_b);
  size_t i = 0;
  for (; i + lanes <= piece.count; i += lanes) take(a + i, b + i);
  if (const size_t rest = piece.count - i; rest != 0) {
    Word last_a[hn::MaxLanes(d)] = {};
    Word last_b[hn::MaxLanes(d)] = {};
    std::memcpy(last_a, a + i, rest * sizeof(Word));
    std::memcpy(last_b, b + i, rest * sizeof(Word));
    take(last_a, last_b);
    left_out += lanes - rest;
  }
  counts.zeros += left_out;
  counts.below += below;
  if (!reachable) {
    // Nothing lies at the largest number a word can hold.
  } else if (window.high == window.low) {
    counts.bins[0] += within_count;
  } else {
    for (size_t k = 0; k < within_count; ++k) ++counts.bins[aside[k] >> window.shift];
    if (window.shift != 0) keep(counts, aside, within_count);
  }
  return hn::GetLane(hn::MaxOfLanes(d, most));
}

// ---- one piece ----

// Counts what is not finite in one vector and takes it out: such a pair becomes two zeros.
HWY_NOINLINE void take_out_nonfinite(const PairRules& rules, const PositionErrors& positions, size_t at,
                                     DoubleVector& a, DoubleVector& b, DoubleVector& distance, PairSums& sums) {
  const Doubles d;
  const Words dw;
  const auto finite = hn::And(hn::IsFinite(a), hn::IsFinite(b));
  if (hn::AllTrue(d, hn::Or(finite, hn::Eq(a, b)))) {
    // The same infinities on both sides, as in a mask.
    sums.nonfinite += hn::Lanes(d) - hn::CountTrue(d, finite);
    if (positions.sq != nullptr) {
      const auto one = hn::IfThenZeroElse(hn::RebindMask(dw, finite), hn::Set(dw, uint64_t{1}));
      hn::StoreU(hn::Add(hn::LoadU(dw, positions.nonfinite + at), one), dw, positions.nonfinite + at);
    }
  } else {
    HWY_ALIGN double values_a[hn::MaxLanes(Doubles())];
    HWY_ALIGN double values_b[hn::MaxLanes(Doubles())];
    hn::Store(a, d, values_a);
    hn::Store(b, d, values_b);
    for (size_t i = 0; i < hn::Lanes(d); ++i) {
      const double x = values_a[i];
      const double y = values_b[i];
      if (x - x == 0 && y - y == 0) continue;
      const bool nan_x = x != x;
      const bool nan_y = y != y;
      const bool close = is_close(y, x, rules.tolerance);
      sums.nan_mismatches += (nan_x || nan_y) && !close;
      sums.inf_mismatches += !nan_x && !nan_y && !close;
      sums.unequal += x != y && !(nan_x && nan_y);
      sums.outside += !close;
      ++sums.nonfinite;
      if (positions.sq == nullptr) continue;
      positions.outside[at + i] += !close;
      ++positions.nonfinite[at + i];
    }
  }
  a = hn::IfThenElseZero(finite, a);
  b = hn::IfThenElseZero(finite, b);
  distance = hn::IfThenElseZero(finite, distance);
}

enum class UlpKind { kNone, kF64, kOther };

template <bool GIVEN, UlpKind ULP, bool POSITIONS>
PairSums compare_piece(const PairPiece& piece, const PairRules& rules, double max_rel, const PositionErrors& positions,
                       UlpCounts& ulps) {
  const Doubles d;
  const Words dw;
  const size_t lanes = hn::Lanes(d);
  const size_t end = padded(piece.count);
  const auto zero = hn::Zero(d);
  const auto infinity = hn::Inf(d);
  const auto atol = hn::Set(d, rules.tolerance.atol);
  const auto rtol = hn::Set(d, rules.tolerance.rtol);
  const Steps<ULP == UlpKind::kF64> steps(rules.scale);
  WindowCounter counter(rules.window, ulps);
  PairSums sums;
  auto sum_abs = zero, sum_sq = zero, sum_aa = zero, sum_bb = zero, sum_ab = zero, sum_same = zero;
  auto most_abs = zero;
  auto most_rel = hn::Set(d, max_rel);
  auto all_a = zero;
  auto most_ulp = hn::Zero(dw);
  for (size_t i = 0; i < end; i += lanes) {
    auto a = hn::Load(d, piece.a + i);
    auto b = hn::Load(d, piece.b + i);
    auto distance = GIVEN ? hn::Load(d, piece.distance + i) : hn::Abs(hn::Sub(b, a));
    if (!hn::AllTrue(d, hn::And(hn::Lt(hn::Abs(a), infinity), hn::Lt(hn::Abs(b), infinity))))
      take_out_nonfinite(rules, positions, i, a, b, distance, sums);
    all_a = hn::Or(all_a, a);
    const auto unequal = hn::Ne(distance, zero);
    if (hn::AllFalse(d, unequal)) {
      sum_same = hn::MulAdd(a, a, sum_same);
      if constexpr (ULP != UlpKind::kNone) counter.add_zeros();
      continue;
    }
    const auto magnitude = hn::Abs(a);
    sums.unequal += hn::CountTrue(d, unequal);
    // As is_close(): a multiplication and an addition, each rounded.
    const auto within = hn::Le(distance, hn::Add(atol, hn::Mul(rtol, magnitude)));
    const auto outside = hn::And(unequal, hn::Not(within));
    sums.outside += hn::CountTrue(d, outside);
    const auto sq = hn::Mul(distance, distance);
    sum_abs = hn::Add(sum_abs, distance);
    sum_sq = hn::Add(sum_sq, sq);
    sum_aa = hn::MulAdd(a, a, sum_aa);
    sum_bb = hn::MulAdd(b, b, sum_bb);
    sum_ab = hn::MulAdd(a, b, sum_ab);
    most_abs = hn::Max(most_abs, distance);
    // Rounding keeps the order: what is not at least the product cannot have a larger quotient.
    if (const auto larger = hn::And(unequal, hn::Ge(distance, hn::Mul(most_rel, magnitude)));
        !hn::AllFalse(d, larger)) {
      const auto quotient = hn::IfThenElseZero(hn::Ne(magnitude, zero), hn::Div(distance, magnitude));
      most_rel = hn::MaxOfLanes(d, hn::Max(most_rel, quotient));
    }
    if constexpr (ULP != UlpKind::kNone) {
      const auto steps_apart = steps.distance(a, b);
      most_ulp = hn::Max(most_ulp, steps_apart);
      counter.add(steps_apart);
    }
    if constexpr (POSITIONS) {
      hn::StoreU(hn::Add(hn::LoadU(d, positions.sq + i), sq), d, positions.sq + i);
      hn::StoreU(hn::Max(hn::LoadU(d, positions.max_abs + i), distance), d, positions.max_abs + i);
      if (!hn::AllFalse(d, outside)) {
        const auto one = hn::IfThenElseZero(hn::RebindMask(dw, outside), hn::Set(dw, uint64_t{1}));
        hn::StoreU(hn::Add(hn::LoadU(dw, positions.outside + i), one), dw, positions.outside + i);
      }
    }
  }
  const auto sum = [&](auto v) HWY_ATTR { return hn::GetLane(hn::SumOfLanes(d, v)); };
  const double same = sum(sum_same);
  sums.abs = sum(sum_abs);
  sums.sq = sum(sum_sq);
  sums.aa = sum(sum_aa) + same;
  sums.bb = sum(sum_bb) + same;
  sums.ab = sum(sum_ab) + same;
  sums.max_abs = hn::GetLane(hn::MaxOfLanes(d, most_abs));
  sums.max_rel = hn::GetLane(most_rel);
  sums.nonzero_a = !hn::AllTrue(d, hn::Eq(hn::Abs(all_a), zero));
  if constexpr (ULP != UlpKind::kNone) {
    sums.max_ulp = hn::GetLane(hn::MaxOfLanes(dw, most_ulp));
    counter.finish();
    ulps.zeros += end - piece.count + sums.nonfinite;
  }
  return sums;
}

template <bool GIVEN, UlpKind ULP>
PairSums compare_with(const PairPiece& piece, const PairRules& rules, double max_rel, const PositionErrors& positions,
                      UlpCounts& ulps) {
  return positions.sq != nullptr ? compare_piece<GIVEN, ULP, true>(piece, rules, max_rel, positions, ulps)
                                 : compare_piece<GIVEN, ULP, false>(piece, rules, max_rel, positions, ulps);
}

PairSums compare(const PairPiece& piece, const PairRules& rules, double max_rel, const PositionErrors& positions,
                 UlpCounts& ulps) {
  if (piece.distance != nullptr) return compare_with<true, UlpKind::kNone>(piece, rules, max_rel, positions, ulps);
  if (!rules.ulp || rules.words.bytes != 0) {
    PairSums sums = compare_with<false, UlpKind::kNone>(piece, rules, max_rel, positions, ulps);
    if (sums.unequal == 0) {
      ulps.below += piece.count - sums.nonfinite;
      return sums;
    }
    if (rules.words.bytes == 4) sums.max_ulp = count_words<uint32_t>(piece, rules, ulps);
    if (rules.words.bytes == 2) sums.max_ulp = count_words<uint16_t>(piece, rules, ulps);
    if (rules.words.bytes == 1) sums.max_ulp = count_words<uint8_t>(piece, rules, ulps);
    return sums;
  }
  return rules.scale.shift() == 0 ? compare_with<false, UlpKind::kF64>(piece, rules, max_rel, positions, ulps)
                                  : compare_with<false, UlpKind::kOther>(piece, rules, max_rel, positions, ulps);
}

template <bool F64>
void count_ulps_of(const PairPiece& piece, const PairRules& rules, UlpCounts& ulps) {
  const Doubles d;
  const Steps<F64> steps(rules.scale);
  WindowCounter counter(rules.window, ulps);
  const size_t end = padded(piece.count);
  ulps.zeros += end - piece.count;
  for (size_t i = 0; i < end; i += hn::Lanes(d)) {
    auto a = hn::Load(d, piece.a + i);
    auto b = hn::Load(d, piece.b + i);
    const auto finite = hn::And(hn::Lt(hn::Abs(a), hn::Inf(d)), hn::Lt(hn::Abs(b), hn::Inf(d)));
    if (!hn::AllTrue(d, finite)) {
      ulps.zeros += hn::Lanes(d) - hn::CountTrue(d, finite);
      a = hn::IfThenElseZero(finite, a);
      b = hn::IfThenElseZero(finite, b);
    }
    counter.add(steps.distance(a, b));
  }
  counter.finish();
}

void count_ulps(const PairPiece& piece, const PairRules& rules, UlpCounts& ulps) {
  rules.scale.shift() == 0 ? count_ulps_of<true>(piece, rules, ulps) : count_ulps_of<false>(piece, rules, ulps);
}

// ---- widening ----

using Floats = hn::Rebind<float, Doubles>;

template <DType kDType, class Source>
void widen(const std::byte* from, size_t count, double* to) {
  const Doubles d;
  const size_t lanes = hn::Lanes(d);
  const auto* source = reinterpret_cast<const Source*>(from);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    // The values are first touched here: while this piece is worked on, the next one is fetched.
    __builtin_prefetch(source + i + kPieceValues);
    const auto v = hn::LoadU(hn::Rebind<Source, Doubles>(), source + i);
    if constexpr (kDType == DType::kF32) {
      hn::Store(hn::PromoteTo(d, v), d, to + i);
    } else if constexpr (kDType == DType::kF16) {
      hn::Store(hn::PromoteTo(d, hn::PromoteTo(Floats(), v)), d, to + i);
    } else {
      const auto bits = hn::ShiftLeft<16>(hn::PromoteTo(hn::Rebind<uint32_t, Doubles>(), v));
      hn::Store(hn::PromoteTo(d, hn::BitCast(Floats(), bits)), d, to + i);
    }
  }
  for (; i < count; ++i) to[i] = value_of(kDType, source + i);
}

template <class T>
void distance(const std::byte* from_a, const std::byte* from_b, size_t count, double* to) {
  const Doubles d;
  const hn::Rebind<T, Doubles> di;
  const Words dw;
  const size_t lanes = hn::Lanes(d);
  const auto* a = reinterpret_cast<const T*>(from_a);
  const auto* b = reinterpret_cast<const T*>(from_b);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto x = hn::LoadU(di, a + i);
    const auto y = hn::LoadU(di, b + i);
    // Unsigned: the difference of any two is right.
    const auto less = hn::RebindMask(dw, hn::Lt(x, y));
    const auto ux = hn::BitCast(dw, x);
    const auto uy = hn::BitCast(dw, y);
    hn::Store(hn::ConvertTo(d, hn::IfThenElse(less, hn::Sub(uy, ux), hn::Sub(ux, uy))), d, to + i);
  }
  const auto rest = std::is_signed_v<T> ? plain_pair_kernels().distance_i64 : plain_pair_kernels().distance_u64;
  rest(from_a + i * sizeof(T), from_b + i * sizeof(T), count - i, to + i);
}

constexpr PairKernels kKernels = {HWY_TARGET == HWY_AVX3   ? "avx512"
                                  : HWY_TARGET == HWY_AVX2 ? "avx2"
                                                           : "neon",
                                  compare,
                                  count_ulps,
                                  widen<DType::kF32, float>,
                                  widen<DType::kF16, hwy::float16_t>,
                                  widen<DType::kBF16, uint16_t>,
                                  distance<int64_t>,
                                  distance<uint64_t>};

}  // namespace HWY_NAMESPACE
}  // namespace pairs
}  // namespace ttap
HWY_AFTER_NAMESPACE();

#endif  // a vector target
#endif  // per target
