// Not a header of its own: the sketches for HWY_TARGET, compiled once for each (vector_kernels.cpp).
#if defined(TTAP_SKETCH_KERNELS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TTAP_SKETCH_KERNELS_INL
#undef TTAP_SKETCH_KERNELS_INL
#else
#define TTAP_SKETCH_KERNELS_INL
#endif

#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

HWY_BEFORE_NAMESPACE();
namespace ttap {
namespace HWY_NAMESPACE {

// The signs of a block's groups, each as often as a group has 32-bit words. Bit i is that of the block's row i.
struct BlockSigns {
  alignas(64) uint32_t words[kSketchGroups * 4];

  HWY_INLINE BlockSigns(uint32_t seed, uint64_t block, size_t groups) {
    const hn::FixedTag<uint32_t, 4> d;
    const auto first_row = static_cast<uint32_t>(block % 2 * kSketchBlockRows);
    for (size_t group = 0; group < groups; ++group) {
      const uint32_t signs = sketch_signs(seed, static_cast<uint32_t>(group));
      hn::Store(hn::Set(d, (signs >> first_row & 0xFF) | (signs & 0x00FF0000)), d, words + 4 * group);
    }
  }
};

// A vector is some groups. Its words are rotated within each group as row number ROW asks for.
template <int ROW, class D, class V>
HWY_INLINE V rotated(D d, V v) {
  if constexpr (sizeof(hn::TFromD<D>) == 8) {
    if constexpr (ROW % 2 == 1) return hn::Shuffle01(v);
  } else {
    const hn::Repartition<uint32_t, D> d32;
    if constexpr (ROW % 4 == 1) return hn::BitCast(d, hn::Shuffle0321(hn::BitCast(d32, v)));
    if constexpr (ROW % 4 == 2) return hn::BitCast(d, hn::Shuffle1032(hn::BitCast(d32, v)));
    if constexpr (ROW % 4 == 3) return hn::BitCast(d, hn::Shuffle2103(hn::BitCast(d32, v)));
  }
  return v;
}

// Calls take<ROW>() for the rows that are there.
template <int ROW = 0, class Take>
HWY_INLINE void for_each_row(size_t rows, const Take& take) {
  if (ROW >= static_cast<int>(rows)) return;
  take(std::integral_constant<int, ROW>());
  if constexpr (ROW + 1 < static_cast<int>(kSketchBlockRows)) for_each_row<ROW + 1>(rows, take);
}

// Adds what was found of consecutive values of a row.
template <class T>
HWY_INLINE void add_found(const T* found, size_t first, size_t count, uint32_t flip, double* buckets) {
  for (size_t i = 0; i < count; ++i) buckets[(first + i) % kSketchBuckets ^ flip] += static_cast<double>(found[i]);
}

// Sums of a block's values are in f32: of 64 values at most, which have 11 bits.
template <class Format>
void sketch_16(const std::byte* data, size_t rows, size_t groups, uint64_t block, double* buckets) {
  const hn::ScalableTag<uint16_t> d;
  const hn::ScalableTag<uint32_t> d32;
  const size_t at_once = hn::Lanes(d) / 8;  // groups
  const SketchUnit unit = sketch_unit(block / 2);
  const BlockSigns signs(unit.seed, block, (groups + at_once - 1) / at_once * at_once);
  const auto sign_bits = hn::Set(d, uint16_t{0x8000});
  alignas(64) static constexpr uint16_t kShifts[32] = {0x8000, 0x4000, 0x2000, 0x1000, 0x0800, 0x0400, 0x0200, 0x0100,
                                                       0x8000, 0x4000, 0x2000, 0x1000, 0x0800, 0x0400, 0x0200, 0x0100,
                                                       0x8000, 0x4000, 0x2000, 0x1000, 0x0800, 0x0400, 0x0200, 0x0100,
                                                       0x8000, 0x4000, 0x2000, 0x1000, 0x0800, 0x0400, 0x0200, 0x0100};
  const auto shifts = hn::Load(d, kShifts);
  for (size_t column = 0; column < 4 && column < groups; column += at_once) {
    auto low = hn::Zero(Floats()), high = hn::Zero(Floats());
    auto low_odd = low, high_odd = high;
    for (size_t group = column; group < groups; group += 4) {
      const auto words = hn::Load(d32, signs.words + 4 * group);
      const auto of_rows = hn::BitCast(d, hn::Or(hn::And(words, hn::Set(d32, 0x0000FFFFu)), hn::ShiftLeft<16>(words)));
      const auto of_places =
          hn::BitCast(d, hn::Or(hn::ShiftRight<16>(words), hn::And(words, hn::Set(d32, 0xFFFF0000u))));
      const auto places = hn::Mul(of_places, shifts);
      const auto* from = as<uint16_t>(data + group * kSketchGroupBytes);
      for_each_row(rows, [&](auto row) HWY_ATTR {
        constexpr int kRow = decltype(row)::value;
        const auto value = rotated<kRow>(d, hn::LoadU(d, from + kRow * (kSketchRowBytes / 2)));
        const auto sign = hn::And(hn::Xor(hn::ShiftLeft<15 - kRow>(of_rows), places), sign_bits);
        const auto bits = hn::Xor(value, sign);
        auto& into_low = kRow % 2 == 0 ? low : low_odd;
        auto& into_high = kRow % 2 == 0 ? high : high_odd;
        if constexpr (std::is_same_v<Format, BF16>) {
          into_low = hn::Add(into_low, hn::BitCast(Floats(), hn::InterleaveLower(d, hn::Zero(d), bits)));
          into_high = hn::Add(into_high, hn::BitCast(Floats(), hn::InterleaveUpper(d, hn::Zero(d), bits)));
        } else {
          const hn::Half<decltype(d)> half;
          const hn::Rebind<hwy::float16_t, decltype(half)> d16;
          into_low = hn::Add(into_low, hn::PromoteTo(Floats(), hn::BitCast(d16, hn::LowerHalf(half, bits))));
          into_high = hn::Add(into_high, hn::PromoteTo(Floats(), hn::BitCast(d16, hn::UpperHalf(half, bits))));
        }
      });
    }
    alignas(64) float found[2][16];
    hn::Store(hn::Add(low, low_odd), Floats(), found[0]);
    hn::Store(hn::Add(high, high_odd), Floats(), found[1]);
    const size_t half = hn::Lanes(Floats());
    if constexpr (std::is_same_v<Format, BF16>) {  // interleaved within each group
      for (size_t i = 0; i < at_once; ++i) {
        add_found(found[0] + 4 * i, 8 * (column + i), 4, unit.flip, buckets);
        add_found(found[1] + 4 * i, 8 * (column + i) + 4, 4, unit.flip, buckets);
      }
    } else {
      add_found(found[0], 8 * column, half, unit.flip, buckets);
      add_found(found[1], 8 * column + half, half, unit.flip, buckets);
    }
  }
}

void sketch_32(const std::byte* data, size_t rows, size_t groups, uint64_t block, double* buckets) {
  const hn::ScalableTag<uint32_t> d;
  const size_t at_once = hn::Lanes(d) / 4;
  const SketchUnit unit = sketch_unit(block / 2);
  const BlockSigns signs(unit.seed, block, (groups + at_once - 1) / at_once * at_once);
  const auto sign_bits = hn::Set(d, 0x80000000u);
  alignas(64) static constexpr uint32_t kShifts[16] = {15, 14, 13, 12, 15, 14, 13, 12, 15, 14, 13, 12, 15, 14, 13, 12};
  const auto shifts = hn::Load(d, kShifts);
  for (size_t column = 0; column < 8 && column < groups; column += at_once) {
    auto low = hn::Zero(Doubles()), high = hn::Zero(Doubles());
    auto low_odd = low, high_odd = high;
    for (size_t group = column; group < groups; group += 8) {
      const auto of_rows = hn::Load(d, signs.words + 4 * group);
      const auto places = hn::Shl(of_rows, shifts);
      const auto* from = as<uint32_t>(data + group * kSketchGroupBytes);
      for_each_row(rows, [&](auto row) HWY_ATTR {
        constexpr int kRow = decltype(row)::value;
        const auto value = rotated<kRow>(d, hn::LoadU(d, from + kRow * (kSketchRowBytes / 4)));
        const auto sign = hn::And(hn::Xor(hn::ShiftLeft<31 - kRow>(of_rows), places), sign_bits);
        const auto floats = hn::BitCast(Floats(), hn::Xor(value, sign));
        auto& into_low = kRow % 2 == 0 ? low : low_odd;
        auto& into_high = kRow % 2 == 0 ? high : high_odd;
        into_low = hn::Add(into_low, hn::PromoteTo(Doubles(), hn::LowerHalf(hn::Half<Floats>(), floats)));
        into_high = hn::Add(into_high, hn::PromoteTo(Doubles(), hn::UpperHalf(hn::Half<Floats>(), floats)));
      });
    }
    alignas(64) double found[2][8];
    hn::Store(hn::Add(low, low_odd), Doubles(), found[0]);
    hn::Store(hn::Add(high, high_odd), Doubles(), found[1]);
    const size_t half = hn::Lanes(Doubles());
    add_found(found[0], 4 * column, half, unit.flip, buckets);
    add_found(found[1], 4 * column + half, half, unit.flip, buckets);
  }
}

void sketch_64(const std::byte* data, size_t rows, size_t groups, uint64_t block, double* buckets) {
  const hn::ScalableTag<uint64_t> d;
  const hn::ScalableTag<uint32_t> d32;
  const size_t at_once = hn::Lanes(d) / 2;
  const SketchUnit unit = sketch_unit(block / 2);
  const BlockSigns signs(unit.seed, block, (groups + at_once - 1) / at_once * at_once);
  const auto sign_bits = hn::Set(d, uint64_t{1} << 63);
  alignas(64) static constexpr uint64_t kShifts[8] = {47, 46, 47, 46, 47, 46, 47, 46};
  const auto shifts = hn::Load(d, kShifts);
  for (size_t column = 0; column < 16 && column < groups; column += at_once) {
    auto even = hn::Zero(Doubles()), odd = hn::Zero(Doubles());
    for (size_t group = column; group < groups; group += 16) {
      // Of the two words of a value the lower one is enough.
      const auto of_rows = hn::BitCast(d, hn::Load(d32, signs.words + 4 * group));
      const auto places = hn::Shl(of_rows, shifts);
      const auto* from = as<uint64_t>(data + group * kSketchGroupBytes);
      for_each_row(rows, [&](auto row) HWY_ATTR {
        constexpr int kRow = decltype(row)::value;
        const auto value = rotated<kRow>(d, hn::LoadU(d, from + kRow * (kSketchRowBytes / 8)));
        const auto sign = hn::And(hn::Xor(hn::ShiftLeft<63 - kRow>(of_rows), places), sign_bits);
        auto& into = kRow % 2 == 0 ? even : odd;
        into = hn::Add(into, hn::BitCast(Doubles(), hn::Xor(value, sign)));
      });
    }
    alignas(64) double found[8];
    hn::Store(hn::Add(even, odd), Doubles(), found);
    add_found(found, 2 * column, hn::Lanes(Doubles()), unit.flip, buckets);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ttap
HWY_AFTER_NAMESPACE();

#endif  // a vector target
#endif  // per target
