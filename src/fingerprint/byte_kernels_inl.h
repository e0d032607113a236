// Not a header of its own: the kernels of one-byte formats for HWY_TARGET, after vector_kernels_inl.h.
#if defined(TTAP_BYTE_KERNELS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TTAP_BYTE_KERNELS_INL
#undef TTAP_BYTE_KERNELS_INL
#else
#define TTAP_BYTE_KERNELS_INL
#endif

#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

HWY_BEFORE_NAMESPACE();
namespace ttap {
namespace HWY_NAMESPACE {

using Octets = hn::ScalableTag<uint8_t>;
using Words = hn::ScalableTag<uint64_t>;

// A lane of bytes must not count beyond 255: at most this many bytes are scanned at once, `per_lane` counts a vector.
inline size_t piece_bytes(size_t per_vector) { return 128 / per_vector * hn::Lanes(Octets()); }

// Integers of 8 bits are summed as integers.
template <bool SIGNED>
struct ByteSums {
  static constexpr bool kScans = false;
  static HWY_INLINE void add(const std::byte* data, size_t count, const double*, StatsPart& part) {
    const Octets d;
    const Words d64;
    const hn::ScalableTag<uint16_t> d16;
    const hn::ScalableTag<int16_t> ds16;
    const hn::ScalableTag<int32_t> ds32;
    const auto flip = hn::Set(d, uint8_t{0x80});
    const auto even = hn::Set(d16, uint16_t{0x00FF});
    auto sum = hn::Zero(d64);
    auto l1 = hn::Zero(d64);
    auto squares = hn::Zero(ds32);
    auto squares_more = hn::Zero(ds32);
    for (size_t i = 0; i < count; i += hn::Lanes(d)) {
      const auto v = hn::LoadU(d, as<uint8_t>(data) + i);
      const auto magnitudes = magnitude<std::conditional_t<SIGNED, I8, U8>>(d, v);
      if constexpr (SIGNED) sum = hn::Add(sum, hn::SumsOf8(hn::Xor(v, flip)));  // v + 128
      l1 = hn::Add(l1, hn::SumsOf8(magnitudes));
      const auto pairs = hn::BitCast(d16, magnitudes);
      const auto low = hn::BitCast(ds16, hn::And(pairs, even));
      const auto high = hn::BitCast(ds16, hn::ShiftRight<8>(pairs));
      squares = hn::ReorderWidenMulAccumulate(ds32, low, low, squares, squares_more);
      squares = hn::ReorderWidenMulAccumulate(ds32, high, high, squares, squares_more);
    }
    const double l1_total = static_cast<double>(hn::GetLane(hn::SumOfLanes(d64, l1)));
    const double sum_total =
        SIGNED ? static_cast<double>(hn::GetLane(hn::SumOfLanes(d64, sum))) - 128.0 * static_cast<double>(count)
               : l1_total;
    // A lane holds at most 2^24 here, but all lanes together may exceed 2^31.
    const auto wide = hn::Add(hn::PromoteTo(hn::ScalableTag<int64_t>(), hn::LowerHalf(hn::Add(squares, squares_more))),
                              hn::PromoteTo(hn::ScalableTag<int64_t>(),
                                            hn::UpperHalf(hn::Half<decltype(ds32)>(), hn::Add(squares, squares_more))));
    const auto squares_total = static_cast<double>(hn::GetLane(hn::SumOfLanes(hn::ScalableTag<int64_t>(), wide)));
    set_from_exact(count, {sum_total, squares_total, l1_total}, part);
  }
};

// Two bytes in a lane of 16 bits are taken apart with the byte on top; what an f16 with that top byte is worth,
// times 2^EXPONENT, is the value.
struct HalfOfE5M2 {
  template <class V>
  static HWY_INLINE V half(V top) {
    return top;
  }
};
struct HalfOfE4M3 {
  template <class V>
  static HWY_INLINE V half(V top) {
    // s eeee mmm → s 0eeee mmm…: the shift doubles the sign, the mask takes the copy away.
    const hn::ScalableTag<int16_t> d;
    return hn::And(hn::ShiftRight<1>(top), hn::Set(d, static_cast<int16_t>(0xBFFF)));
  }
};

template <class Convert, int EXPONENT>
struct HalfSums {
  static constexpr bool kScans = false;
  static HWY_INLINE void add(const std::byte* data, size_t count, const double*, StatsPart& part) {
    const hn::ScalableTag<int16_t> d;
    const size_t lanes = hn::Lanes(d);
    const auto top = hn::Set(d, static_cast<int16_t>(0xFF00));
    alignas(64) int16_t halves[kHashBlockBytes / 2];
    for (size_t i = 0; i < count; i += 2 * lanes) {
      const auto pairs = hn::LoadU(d, as<int16_t>(data + i));
      hn::Store(Convert::half(hn::ShiftLeft<8>(pairs)), d, halves + i);
      hn::Store(Convert::half(hn::And(pairs, top)), d, halves + i + lanes);
    }
    alignas(64) float wide[kHashBlockBytes / 2];
    WidenF16::widen(reinterpret_cast<const std::byte*>(halves), count, wide);
    Sums sums = sum_up<LoadF32, false>(reinterpret_cast<const std::byte*>(wide), count, 0);
    constexpr double kScale = 1 << EXPONENT;
    sums.sum *= kScale;
    sums.squares *= kScale * kScale;
    sums.l1 *= kScale;
    set_from_exact(count, sums, part);
  }
};

template <class Format, class Adder, size_t LIMIT>
StatsPart byte_stats(const std::byte* data, size_t count, const double* near) {
  const size_t piece = std::min(LIMIT, piece_bytes(1));
  StatsPart part = stats<Format, Adder>(data, std::min(count, piece), near);
  for (size_t at = piece; at < count; at += piece)
    merge(part, stats<Format, Adder>(data + at, std::min(count - at, piece), near));
  return part;
}

StatsPart bool_stats(const std::byte* data, size_t count, const double*) {
  const Octets d;
  const size_t lanes = hn::Lanes(d);
  const size_t piece = piece_bytes(1);
  uint64_t zeros = 0;
  size_t i = 0;
  for (size_t end = 0; i + lanes <= count;) {
    end = std::min(count, i + piece);
    auto found = hn::Zero(d);
    for (; i + lanes <= end; i += lanes) {
      const auto is_zero = hn::Eq(hn::LoadU(d, as<uint8_t>(data) + i), hn::Zero(d));
      found = hn::IfThenElse(is_zero, hn::Add(found, hn::Set(d, uint8_t{1})), found);
    }
    zeros += sum_lanes(d, found);
  }
  for (; i < count; ++i) zeros += data[i] == std::byte{0} ? 1 : 0;

  StatsPart part;
  if (count == 0) return part;
  const auto ones = static_cast<double>(count - zeros);
  part.finite = count;
  part.zeros = zeros;
  part.min = zeros != 0 ? 0 : 1;
  part.max = zeros != count ? 1 : 0;
  if (zeros != count) part.min_abs_nonzero = 1;
  set_from_exact(count, {ones, ones, ones}, part);
  return part;
}

// Packed f4: sixteen values fit a table that is looked up for all bytes at once. The tables hold twice the value, which
// is an integer.
StatsPart f4_piece(const std::byte* data, size_t bytes) {
  alignas(16) static constexpr uint8_t kPlus12[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
  alignas(16) static constexpr uint8_t kMagnitude[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, 1, 2, 3, 4, 6, 8, 12};
  alignas(16) static constexpr uint8_t kSquare[16] = {0, 1, 4, 9, 16, 36, 64, 144, 0, 1, 4, 9, 16, 36, 64, 144};
  const Octets d;
  const Words d64;
  const hn::ScalableTag<uint16_t> d16;
  const auto plus12 = hn::LoadDup128(d, kPlus12);
  const auto magnitude_of = hn::LoadDup128(d, kMagnitude);
  const auto square_of = hn::LoadDup128(d, kSquare);
  const auto one = hn::Set(d, uint8_t{1});
  const auto nibble = hn::Set(d, uint8_t{0x0F});
  auto least = hn::Set(d, uint8_t{0xFF});
  auto lowest = hn::Set(d, uint8_t{0xFF});
  auto highest = hn::Zero(d);
  auto zeros = hn::Zero(d), subnormals = hn::Zero(d);
  auto sum = hn::Zero(d64), l1 = hn::Zero(d64), squares = hn::Zero(d64);
  const size_t lanes = hn::Lanes(d);
  const size_t whole = bytes - bytes % lanes;
  for (size_t i = 0; i < whole; i += lanes) {
    __builtin_prefetch(data + i + kHashBlockBytes);
    const auto v = hn::LoadU(d, as<uint8_t>(data) + i);
    const auto low = hn::And(v, nibble);
    const auto high = hn::And(hn::BitCast(d, hn::ShiftRight<4>(hn::BitCast(d16, v))), nibble);
    const auto take = [&](auto codes) HWY_ATTR {
      const auto shifted = hn::TableLookupBytes(plus12, codes);
      const auto magnitudes = hn::TableLookupBytes(magnitude_of, codes);
      lowest = hn::Min(lowest, shifted);
      highest = hn::Max(highest, shifted);
      least = hn::Min(least, hn::Sub(magnitudes, one));
      zeros = hn::IfThenElse(hn::Eq(magnitudes, hn::Zero(d)), hn::Add(zeros, one), zeros);
      subnormals = hn::IfThenElse(hn::Eq(magnitudes, one), hn::Add(subnormals, one), subnormals);
      sum = hn::Add(sum, hn::SumsOf8(shifted));
      l1 = hn::Add(l1, hn::SumsOf8(magnitudes));
      squares = hn::Add(squares, hn::SumsOf8(hn::TableLookupBytes(square_of, codes)));
    };
    take(low);
    take(high);
  }
  StatsPart part;
  if (whole != 0) {
    const size_t count = 2 * whole;
    part.finite = count;
    part.zeros = sum_lanes(d, zeros);
    part.subnormals = sum_lanes(d, subnormals);
    part.min = (min_lane(d, lowest) - 12) / 2.0;
    part.max = (max_lane(d, highest) - 12) / 2.0;
    if (part.zeros != count) part.min_abs_nonzero = (min_lane(d, least) + 1) / 2.0;
    const auto total = [&](auto v) HWY_ATTR { return static_cast<double>(hn::GetLane(hn::SumOfLanes(d64, v))); };
    set_from_exact(count, {(total(sum) - 12.0 * static_cast<double>(count)) / 2, total(squares) / 4, total(l1) / 2},
                   part);
  }
  if (whole != bytes) {
    ByteHistogram rest;
    rest.add(data + whole, bytes - whole);
    merge(part, rest.stats(DType::kF4E2M1FNx2));
  }
  return part;
}

StatsPart f4_stats(const std::byte* data, size_t bytes, const double*) {
  const size_t piece = piece_bytes(2);
  StatsPart part = f4_piece(data, std::min(bytes, piece));
  for (size_t at = piece; at < bytes; at += piece) merge(part, f4_piece(data + at, std::min(bytes - at, piece)));
  return part;
}

constexpr Kernels kKernels = {HWY_TARGET == HWY_AVX3   ? "avx512"
                              : HWY_TARGET == HWY_AVX2 ? "avx2"
                                                       : "neon",
                              hash_block,
                              hash_and_copy_block,
                              sketch_16<F16>,
                              sketch_16<BF16>,
                              sketch_32,
                              sketch_64,
                              stats<F16, WidenedSums<WidenF16>>,
                              stats<BF16, WidenedSums<WidenBF16>>,
                              stats<F32, ShiftedSums<LoadF32>>,
                              stats<F64, ShiftedSums<LoadF64>>,
                              stats<I16, WidenedSums<WidenI16>>,
                              stats<I32, ShiftedSums<LoadI32>>,
                              stats<I64, ShiftedSums<LoadInteger64<int64_t>>>,
                              stats<U16, WidenedSums<WidenU16>>,
                              stats<U32, ShiftedSums<LoadU32>>,
                              stats<U64, ShiftedSums<LoadInteger64<uint64_t>>>,
                              bool_stats,
                              byte_stats<I8, ByteSums<true>, kHashBlockBytes>,
                              byte_stats<U8, ByteSums<false>, kHashBlockBytes>,
                              byte_stats<E4M3FN, HalfSums<HalfOfE4M3, 8>, kHashBlockBytes / 2>,
                              byte_stats<E5M2, HalfSums<HalfOfE5M2, 0>, kHashBlockBytes / 2>,
                              byte_stats<E4M3FNUZ, HalfSums<HalfOfE4M3, 7>, kHashBlockBytes / 2>,
                              f4_stats};

#if HWY_TARGET == HWY_AVX3

// With byte tables (byte_sums.h). A unit is 2^EXPONENT.
template <auto SUMS, int EXPONENT>
struct TableSums {
  static constexpr bool kScans = true;
  template <class Format>
  static HWY_INLINE Extremes<uint8_t> scan_and_add(const std::byte* data, size_t count, StatsPart& part) {
    constexpr double kUnit = 1.0 / (1 << -EXPONENT);
    const ByteFloatSums sums = SUMS(data, count);
    set_from_exact(count, {sums.sum * kUnit, sums.squares * (kUnit * kUnit), sums.l1 * kUnit}, part);
    Extremes<uint8_t> found{};
    found.least = sums.least;
    found.zeros = sums.zeros;
    found.subnormals = sums.subnormals;
    set_float_extremes<Format>(sums.top, sums.high, sums.low, found);
    return found;
  }
};

StatsPart e8m0_stats(const std::byte* data, size_t count, const double*) { return stats_of_e8m0(data, count); }

constexpr Kernels with_byte_tables(Kernels kernels) {
  kernels.e4m3fn = byte_stats<E4M3FN, TableSums<sums_of_e4m3, -9>, kHashBlockBytes>;
  kernels.e5m2 = byte_stats<E5M2, TableSums<sums_of_e5m2, -16>, kHashBlockBytes>;
  kernels.e4m3fnuz = byte_stats<E4M3FNUZ, TableSums<sums_of_e4m3, -10>, kHashBlockBytes>;
  kernels.e5m2fnuz = byte_stats<E5M2FNUZ, TableSums<sums_of_e5m2fnuz, -17>, kHashBlockBytes>;
  kernels.e8m0fnu = e8m0_stats;
  return kernels;
}
constexpr Kernels kByteTableKernels = with_byte_tables(kKernels);

#endif

}  // namespace HWY_NAMESPACE
}  // namespace ttap
HWY_AFTER_NAMESPACE();

#endif  // a vector target
#endif  // per target
