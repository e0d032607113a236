// Not a header of its own: the kernels for HWY_TARGET, compiled once for each (vector_kernels.cpp).
#if defined(TTAP_VECTOR_KERNELS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TTAP_VECTOR_KERNELS_INL
#undef TTAP_VECTOR_KERNELS_INL
#else
#define TTAP_VECTOR_KERNELS_INL
#endif

// Highway's emulation of vectors is no faster than the plain code of kernels.cpp.
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

HWY_BEFORE_NAMESPACE();
namespace ttap {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Doubles = hn::ScalableTag<double>;
// Values taken in one step of a loop: four vectors of doubles, so that additions need not wait for each other, and
// whole vectors of bits.
template <class Format>
size_t step() {
  return std::max(4 * hn::Lanes(Doubles()), hn::Lanes(hn::ScalableTag<typename Format::Bits>()));
}

template <class T>
const T* as(const std::byte* data) {
  return reinterpret_cast<const T*>(data);
}

// ---- hash ----

// With COPY each word is stored, past the caches, as it is hashed: the target is not read before it is overwritten, and
// what the model has in the caches stays there.
template <bool COPY>
HWY_INLINE HashPair hash_words(const std::byte* data, size_t stripes, std::byte* to) {
  const hn::ScalableTag<uint32_t> d32;
  const hn::ScalableTag<uint64_t> d64;
  constexpr size_t kStripe = kHashStripeBytes / 4;
  const size_t lanes = hn::Lanes(d32);
  const auto* words = as<uint32_t>(data);
  auto sum_a = hn::Zero(d64);
  auto sum_b = hn::Zero(d64);
  const auto product = [&](auto keyed) HWY_ATTR {
    const auto high = hn::BitCast(d32, hn::ShiftRight<32>(hn::BitCast(d64, keyed)));
    return hn::MulEven(keyed, high);
  };
  // A vector narrower than a stripe takes the stripes column by column: then the second key of one stripe is the
  // first of the next.
  for (size_t column = 0; column < kStripe; column += lanes) {
    const uint32_t* keys = kHashKeys.key + column;
    auto key = hn::Load(d32, keys);
    for (size_t s = 0; s < stripes; ++s) {
      const auto word = hn::LoadU(d32, words + s * kStripe + column);
      if constexpr (COPY) hn::Stream(word, d32, reinterpret_cast<uint32_t*>(to) + s * kStripe + column);
      const auto next_key = hn::Load(d32, keys + (s + 1) * kStripe);
      sum_a = hn::Add(sum_a, product(hn::Add(word, key)));
      sum_b = hn::Add(sum_b, product(hn::Add(word, next_key)));
      key = next_key;
    }
  }
  return {hn::GetLane(hn::SumOfLanes(d64, sum_a)), hn::GetLane(hn::SumOfLanes(d64, sum_b))};
}

HashPair hash_block(const std::byte* data, size_t stripes) { return hash_words<false>(data, stripes, nullptr); }

HashPair hash_and_copy_block(const std::byte* data, size_t stripes, std::byte* to) {
  // Half a cache line at a time is the worst way past the caches.
  if constexpr (hn::MaxLanes(hn::ScalableTag<uint32_t>()) * 4 == kHashStripeBytes) {
    return hash_words<true>(data, stripes, to);
  } else {
    std::memcpy(to, data, stripes * kHashStripeBytes);
    return hash_block(to, stripes);
  }
}

// ---- what follows from the bits ----

// Over the lanes of a vector; Highway has none for bytes, which are folded into pairs first.
template <class D, class V, class T = hn::TFromD<D>>
HWY_INLINE T min_lane(D d, V v) {
  if constexpr (sizeof(T) > 1) {
    return hn::GetLane(hn::MinOfLanes(d, v));
  } else if constexpr (std::is_signed_v<T>) {
    const hn::ScalableTag<int16_t> d16;
    const auto pairs = hn::BitCast(d16, v);
    const auto folded = hn::Min(hn::ShiftLeft<8>(pairs), hn::And(pairs, hn::Set(d16, static_cast<int16_t>(0xFF00))));
    return static_cast<T>(hn::GetLane(hn::MinOfLanes(d16, folded)) >> 8);
  } else {
    const hn::ScalableTag<uint16_t> d16;
    const auto pairs = hn::BitCast(d16, v);
    const auto folded = hn::Min(hn::ShiftRight<8>(pairs), hn::And(pairs, hn::Set(d16, uint16_t{0x00FF})));
    return static_cast<T>(hn::GetLane(hn::MinOfLanes(d16, folded)));
  }
}

template <class D, class V, class T = hn::TFromD<D>>
HWY_INLINE T max_lane(D d, V v) {
  // The largest is the complement of the smallest complement, signed or not.
  return static_cast<T>(~min_lane(d, hn::Not(v)));
}

template <class D, class V>
HWY_INLINE uint64_t sum_lanes(D d, V v) {
  if constexpr (sizeof(hn::TFromD<D>) > 1) {
    return static_cast<uint64_t>(hn::GetLane(hn::SumOfLanes(d, v)));
  } else {
    return hn::GetLane(hn::SumOfLanes(hn::ScalableTag<uint64_t>(), hn::SumsOf8(v)));
  }
}

template <class Format>
constexpr bool kIsByteFloat = Format::kKind == RealKind::kFloat && sizeof(typename Format::Bits) == 1;

// The bits of the extreme values; `least` is the smallest nonzero magnitude less one (all ones if every value is zero).
template <class Bits>
struct Extremes {
  Bits min, max, least;
  uint64_t zeros;
  uint64_t subnormals;  // of one-byte floats only: hardly a block of them has none
  bool finite;
};

template <class Format, class D, class V>
HWY_INLINE V magnitude(D d, V v) {
  if constexpr (Format::kKind == RealKind::kFloat) {
    return hn::And(v, hn::Set(d, static_cast<typename Format::Bits>(~Format::kSign)));
  } else if constexpr (Format::kKind == RealKind::kSigned) {
    return hn::BitCast(d, hn::Abs(hn::BitCast(hn::RebindToSigned<D>(), v)));
  } else {
    return v;
  }
}

// Floats have a sign and a magnitude. As integers, the positive ones ascend; the negative ones lie above them unsigned
// and below them signed, and descend. `top` is the largest unsigned, `high` and `low` the largest and smallest signed.
template <class Format, class Bits = typename Format::Bits>
HWY_INLINE void set_float_extremes(Bits top, Bits high, Bits low, Extremes<Bits>& found) {
  const bool any_negative = (top & Format::kSign) != 0;
  const bool any_positive = (high & Format::kSign) == 0;
  found.min = any_negative ? top : low;
  found.max = any_positive ? high : low;
  if constexpr (Format::kNegativeZeroIsNan) {
    found.finite = low != Format::kSign;
  } else {
    found.finite =
        (!any_negative || (top & ~Format::kSign) < Format::kInfinite) && (!any_positive || high < Format::kInfinite);
  }
}

template <class Format>
HWY_INLINE Extremes<typename Format::Bits> scan(const std::byte* data, size_t count) {
  using Bits = typename Format::Bits;
  using Signed = std::make_signed_t<Bits>;
  const hn::ScalableTag<Bits> d;
  const hn::ScalableTag<Signed> ds;
  const size_t lanes = hn::Lanes(d);
  const auto one = hn::Set(d, Bits{1});
  const auto first = hn::LoadU(d, as<Bits>(data));
  auto max_unsigned = first;
  auto min_unsigned = first;
  auto max_signed = hn::BitCast(ds, first);
  auto min_signed = hn::BitCast(ds, first);
  auto least = hn::Set(d, static_cast<Bits>(~Bits{0}));
  // A lane counts at most a block's values.
  auto zeros = hn::Zero(d);
  auto subnormals = hn::Zero(d);
  for (size_t i = 0; i < count; i += lanes) {
    // While this block is worked on, the next one is fetched.
    __builtin_prefetch(data + i * sizeof(Bits) + kHashBlockBytes);
    const auto v = hn::LoadU(d, as<Bits>(data) + i);
    if constexpr (Format::kKind != RealKind::kSigned) max_unsigned = hn::Max(max_unsigned, v);
    if constexpr (Format::kKind == RealKind::kUnsigned) {
      min_unsigned = hn::Min(min_unsigned, v);
    } else {
      max_signed = hn::Max(max_signed, hn::BitCast(ds, v));
      min_signed = hn::Min(min_signed, hn::BitCast(ds, v));
    }
    const auto magnitudes = magnitude<Format>(d, v);
    const auto less_one = hn::Sub(magnitudes, one);
    least = hn::Min(least, less_one);
    if constexpr (kIsByteFloat<Format>) {
      const auto is_subnormal = hn::Lt(less_one, hn::Set(d, Format::kMantissa));
      subnormals = hn::IfThenElse(is_subnormal, hn::Add(subnormals, one), subnormals);
    }
    zeros = hn::IfThenElse(hn::Eq(magnitudes, hn::Zero(d)), hn::Add(zeros, one), zeros);
  }
  Extremes<Bits> found{};
  found.least = min_lane(d, least);
  found.zeros = sum_lanes(d, zeros);
  if constexpr (kIsByteFloat<Format>) found.subnormals = sum_lanes(d, subnormals);
  found.finite = true;
  if constexpr (Format::kKind == RealKind::kUnsigned) {
    found.min = min_lane(d, min_unsigned);
    found.max = max_lane(d, max_unsigned);
  } else {
    const Signed high = max_lane(ds, max_signed);
    const Signed low = min_lane(ds, min_signed);
    found.min = static_cast<Bits>(low);
    found.max = static_cast<Bits>(high);
    if constexpr (Format::kKind == RealKind::kFloat) {
      set_float_extremes<Format>(max_lane(d, max_unsigned), found.max, found.min, found);
    }
  }
  return found;
}

template <class Format>
uint64_t count_subnormals(const std::byte* data, size_t count) {
  using Bits = typename Format::Bits;
  const hn::ScalableTag<Bits> d;
  const auto one = hn::Set(d, Bits{1});
  const auto limit = hn::Set(d, Format::kMantissa);
  auto found = hn::Zero(d);
  for (size_t i = 0; i < count; i += hn::Lanes(d)) {
    const auto magnitudes = magnitude<Format>(d, hn::LoadU(d, as<Bits>(data) + i));
    found = hn::IfThenElse(hn::Lt(hn::Sub(magnitudes, one), limit), hn::Add(found, one), found);
  }
  return sum_lanes(d, found);
}

// ---- sums ----

struct LoadF32 {
  using Source = float;
  static HWY_INLINE auto load(const float* p) {
    return hn::PromoteTo(Doubles(), hn::LoadU(hn::Rebind<float, Doubles>(), p));
  }
};
struct LoadI32 {
  using Source = int32_t;
  static HWY_INLINE auto load(const int32_t* p) {
    return hn::PromoteTo(Doubles(), hn::LoadU(hn::Rebind<int32_t, Doubles>(), p));
  }
};
struct LoadU32 {
  using Source = uint32_t;
  static HWY_INLINE auto load(const uint32_t* p) {
    // The bits of 2^52 + v, less 2^52.
    const hn::Rebind<uint64_t, Doubles> d64;
    const auto wide = hn::PromoteTo(d64, hn::LoadU(hn::Rebind<uint32_t, Doubles>(), p));
    const auto shifted = hn::Or(wide, hn::Set(d64, uint64_t{0x4330000000000000}));
    return hn::Sub(hn::BitCast(Doubles(), shifted), hn::Set(Doubles(), 4503599627370496.0));
  }
};
struct LoadF64 {
  using Source = double;
  static HWY_INLINE auto load(const double* p) { return hn::LoadU(Doubles(), p); }
};
template <class T>
struct LoadInteger64 {
  using Source = T;
  static HWY_INLINE auto load(const T* p) { return hn::ConvertTo(Doubles(), hn::LoadU(hn::Rebind<T, Doubles>(), p)); }
};

struct Sums {
  double sum;      // of value − near
  double squares;  // of value − near
  double l1;       // of |value|
};

template <class Loader, bool SHIFTED>
HWY_INLINE Sums sum_up(const std::byte* data, size_t count, double near) {
  const Doubles d;
  const size_t lanes = hn::Lanes(d);
  const auto* values = as<typename Loader::Source>(data);
  const auto shift = hn::Set(d, near);
  auto sum0 = hn::Zero(d), sum1 = hn::Zero(d);
  auto squares0 = hn::Zero(d), squares1 = hn::Zero(d);
  auto l1_0 = hn::Zero(d), l1_1 = hn::Zero(d);
  const auto take = [&](const auto* p, auto& sum, auto& squares, auto& l1) HWY_ATTR {
    const auto v = Loader::load(p);
    l1 = hn::Add(l1, hn::Abs(v));
    const auto offset = SHIFTED ? hn::Sub(v, shift) : v;
    sum = hn::Add(sum, offset);
    squares = hn::MulAdd(offset, offset, squares);
  };
  for (size_t i = 0; i < count; i += 4 * lanes) {
    take(values + i, sum0, squares0, l1_0);
    take(values + i + lanes, sum1, squares1, l1_1);
    take(values + i + 2 * lanes, sum0, squares0, l1_0);
    take(values + i + 3 * lanes, sum1, squares1, l1_1);
  }
  return {hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1))),
          hn::GetLane(hn::SumOfLanes(d, hn::Add(squares0, squares1))),
          hn::GetLane(hn::SumOfLanes(d, hn::Add(l1_0, l1_1)))};
}

// The mean alone, for a first block that has no neighbour to take it from.
template <class Loader>
double mean_of(const std::byte* data, size_t count) {
  const Doubles d;
  const size_t lanes = hn::Lanes(d);
  const auto* values = as<typename Loader::Source>(data);
  auto sum0 = hn::Zero(d), sum1 = hn::Zero(d);
  for (size_t i = 0; i < count; i += 2 * lanes) {
    sum0 = hn::Add(sum0, Loader::load(values + i));
    sum1 = hn::Add(sum1, Loader::load(values + i + lanes));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1))) / static_cast<double>(count);
}

// Formats of 32 and 64 bits: squares are taken near the mean.
template <class Loader>
struct ShiftedSums {
  static constexpr bool kScans = false;
  static HWY_INLINE void add(const std::byte* data, size_t count, const double* near, StatsPart& part) {
    const double shift = near != nullptr ? *near : mean_of<Loader>(data, count);
    const Sums sums = sum_up<Loader, true>(data, count, shift);
    const double n = static_cast<double>(count);
    const double distance = sums.sum / n;
    set_mean(part, shift, distance);
    part.m2 = sums.squares - sums.sum * distance;
    if (part.m2 < 0) part.m2 = 0;
    part.l1 = sums.l1;
    if constexpr (std::is_same_v<Loader, LoadF64>)
      if (!std::isfinite(sums.squares)) set_from_huge<F64>(data, count, part);
  }
};

// From plain sums that are exact, or as good as that: only the last subtraction needs twice the precision.
HWY_INLINE void set_from_exact(size_t count, const Sums& sums, StatsPart& part) {
  const double n = static_cast<double>(count);
  part.mean = sums.sum / n;
  part.mean_rest = __builtin_fma(-part.mean, n, sums.sum) / n;
  const double a = n * sums.squares;
  const double b = sums.sum * sums.sum;
  const double a_rest = __builtin_fma(n, sums.squares, -a);
  const double b_rest = __builtin_fma(sums.sum, sums.sum, -b);
  part.m2 = ((a - b) + (a_rest - b_rest)) / n;
  if (part.m2 < 0) part.m2 = 0;
  part.l1 = sums.l1;
}

// Formats of 16 bits are widened to f32 without loss. Their squares are so short (32 bits at most, 22 of a float) that
// the sums of a block are exact in double, or else the values so far apart that the mean is not large against their
// spread.
template <class Widen>
struct WidenedSums {
  static constexpr bool kScans = false;
  static HWY_INLINE void add(const std::byte* data, size_t count, const double*, StatsPart& part) {
    alignas(64) float wide[kHashBlockBytes / 2];
    Widen::widen(data, count, wide);
    set_from_exact(count, sum_up<LoadF32, false>(reinterpret_cast<const std::byte*>(wide), count, 0), part);
  }
};

using Floats = hn::ScalableTag<float>;

struct WidenF16 {
  static HWY_INLINE void widen(const std::byte* data, size_t count, float* wide) {
    const Floats d;
    const hn::Rebind<hwy::float16_t, Floats> d16;
    for (size_t i = 0; i < count; i += hn::Lanes(d))
      hn::Store(hn::PromoteTo(d, hn::LoadU(d16, as<hwy::float16_t>(data) + i)), d, wide + i);
  }
};

// The order of values does not matter to a sum: the upper and the lower halves of 32-bit words are taken apart.
struct WidenBF16 {
  static HWY_INLINE void widen(const std::byte* data, size_t count, float* wide) {
    const hn::ScalableTag<uint32_t> d;
    const size_t lanes = hn::Lanes(d);
    const auto upper = hn::Set(d, 0xFFFF0000u);
    for (size_t i = 0; i < count; i += 2 * lanes) {
      const auto words = hn::LoadU(d, as<uint32_t>(data + 2 * i));
      hn::Store(hn::BitCast(Floats(), hn::ShiftLeft<16>(words)), Floats(), wide + i);
      hn::Store(hn::BitCast(Floats(), hn::And(words, upper)), Floats(), wide + i + lanes);
    }
  }
};
struct WidenI16 {
  static HWY_INLINE void widen(const std::byte* data, size_t count, float* wide) {
    const hn::ScalableTag<int32_t> d;
    const size_t lanes = hn::Lanes(d);
    for (size_t i = 0; i < count; i += 2 * lanes) {
      const auto words = hn::LoadU(d, as<int32_t>(data + 2 * i));
      hn::Store(hn::ConvertTo(Floats(), hn::ShiftRight<16>(hn::ShiftLeft<16>(words))), Floats(), wide + i);
      hn::Store(hn::ConvertTo(Floats(), hn::ShiftRight<16>(words)), Floats(), wide + i + lanes);
    }
  }
};
struct WidenU16 {
  static HWY_INLINE void widen(const std::byte* data, size_t count, float* wide) {
    const hn::ScalableTag<uint32_t> d;
    const hn::ScalableTag<int32_t> ds;
    const size_t lanes = hn::Lanes(d);
    const auto lower = hn::Set(d, 0x0000FFFFu);
    for (size_t i = 0; i < count; i += 2 * lanes) {
      const auto words = hn::LoadU(d, as<uint32_t>(data + 2 * i));
      hn::Store(hn::ConvertTo(Floats(), hn::BitCast(ds, hn::And(words, lower))), Floats(), wide + i);
      hn::Store(hn::ConvertTo(Floats(), hn::BitCast(ds, hn::ShiftRight<16>(words))), Floats(), wide + i + lanes);
    }
  }
};

// ---- a block ----

template <class Format, class Adder>
StatsPart stats(const std::byte* data, size_t count, const double* near) {
  using Bits = typename Format::Bits;
  const size_t whole = count - count % step<Format>();
  if (whole == 0) return plain_stats<Format>(data, count);
  StatsPart part;
  const Extremes<Bits> found = [&]() HWY_ATTR {
    if constexpr (Adder::kScans)
      return Adder::template scan_and_add<Format>(data, whole, part);
    else
      return scan<Format>(data, whole);
  }();
  if (!found.finite) {
    // Rare enough to be simple: what is left when the others are counted and taken out is a block like any other.
    alignas(64) Bits kept[kHashBlockBytes / sizeof(Bits)];
    StatsPart counted;
    size_t finite = 0;
    for (size_t i = 0; i < count; ++i) {
      const Bits bits = load_bits<Format>(data, i);
      kept[finite] = bits;
      finite += count_if_not_finite<Format>(bits, counted) ? 0 : 1;
    }
    part = stats<Format, Adder>(reinterpret_cast<const std::byte*>(kept), finite, near);
    merge(part, counted);
    return part;
  }
  part.finite = whole;
  part.zeros = found.zeros;
  part.min = Format::value(found.min);
  part.max = Format::value(found.max);
  if (found.zeros != whole) {
    const auto bits = static_cast<Bits>(found.least + 1);
    // The magnitude of the most negative integer is only right without a sign.
    part.min_abs_nonzero = Format::kKind == RealKind::kFloat ? Format::value(bits) : static_cast<double>(bits);
  }
  if constexpr (kIsByteFloat<Format>) {
    part.subnormals = found.subnormals;
  } else if constexpr (Format::kKind == RealKind::kFloat) {
    if (found.least < Format::kMantissa) part.subnormals = count_subnormals<Format>(data, whole);
  }
  if constexpr (!Adder::kScans) Adder::add(data, whole, near, part);
  if (whole != count) merge(part, plain_stats<Format>(data + whole * sizeof(Bits), count - whole));
  return part;
}

}  // namespace HWY_NAMESPACE
}  // namespace ttap
HWY_AFTER_NAMESPACE();

#endif  // a vector target
#endif  // per target
