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

// Where a hash block begins in its unit.
template <uint32_t VALUES>
struct BlockPlace {
  static constexpr uint32_t kBlocks = kSketchUnitValues / VALUES / (kHashBlockBytes / kSketchVectorBytes);  // of a unit
  uint32_t line;
  uint32_t seed;
  uint32_t flip;  // of the unit, and of its lines from there on

  HWY_INLINE explicit BlockPlace(uint64_t block) : line(static_cast<uint32_t>(block % kBlocks) * kSketchBlockLines) {
    const SketchUnit unit = sketch_unit(block / kBlocks);
    seed = unit.seed;
    flip = unit.flip ^ place_in_vector<VALUES>(0, line);
  }
};

// The signs of a block's vectors, each as often as a vector has 32-bit words. Those of the lines are from bit 0 on
// (with VALUES 2 those of odd lines from bit 4 on), those of the places from bit 16 on.
template <uint32_t VALUES>
struct BlockSigns {
  alignas(64) uint32_t words[kSketchLineVectors * 4];

  HWY_INLINE BlockSigns(const BlockPlace<VALUES>& place, size_t vectors) {
    const hn::FixedTag<uint32_t, 4> d;
    for (size_t i = 0; i < vectors; ++i) {
      const VectorSigns<VALUES> signs(place.seed, static_cast<uint32_t>(i), place.line);
      const uint32_t lines =
          VALUES == 2 ? (signs.line_word(0) & 0xF) | (signs.line_word(1) & 0xF) << 4 : signs.line_word(0) & 0xFFFF;
      hn::Store(hn::Set(d, lines | signs.of_places << 16), d, words + 4 * i);
    }
  }
  HWY_INLINE static constexpr int line_bit(int line) {
    return VALUES == 2 ? line / 2 + line % 2 * 4 : static_cast<int>(VectorSigns<VALUES>::kStride) * line;
  }
};

// A vector register has some vectors of 16 bytes. Their words come to their places in line number LINE of a block.
template <int LINE, class D, class V>
HWY_INLINE V in_places(D d, V v) {
  constexpr uint32_t kValues = kSketchVectorBytes / sizeof(hn::TFromD<D>);
  const hn::Repartition<uint32_t, D> d32;
  if constexpr (kValues == 8 && place_in_vector<kValues>(0, LINE) == 2)
    return hn::BitCast(d, hn::Shuffle2301(hn::BitCast(d32, v)));
  if constexpr (kValues == 4 && place_in_vector<kValues>(0, LINE) == 2)
    return hn::BitCast(d, hn::Shuffle1032(hn::BitCast(d32, v)));
  return v;
}

// Calls take<LINE>() for the lines that are there.
template <int LINE = 0, class Take>
HWY_INLINE void for_each_line(size_t lines, const Take& take) {
  if (LINE >= static_cast<int>(lines)) return;
  take(std::integral_constant<int, LINE>());
  if constexpr (LINE + 1 < static_cast<int>(kSketchBlockLines)) for_each_line<LINE + 1>(lines, take);
}

// Adds what was found of consecutive places of a line.
template <class T>
HWY_INLINE void add_found(const T* found, size_t first, size_t count, uint32_t flip, double* buckets) {
  for (size_t i = 0; i < count; ++i) buckets[(first + i) % kSketchBuckets ^ flip] += static_cast<double>(found[i]);
}

// Sums of a block's values are in f32: of 64 values at most, which have 11 bits.
template <class Format>
void sketch_16(const std::byte* data, size_t lines, size_t vectors, uint64_t block, double* buckets) {
  const hn::ScalableTag<uint16_t> d;
  const hn::ScalableTag<uint32_t> d32;
  const size_t at_once = hn::Lanes(d) / 8;  // vectors
  const BlockPlace<8> place(block);
  const BlockSigns<8> signs(place, (vectors + at_once - 1) / at_once * at_once);
  const auto sign_bits = hn::Set(d, uint16_t{0x8000});
  alignas(64) static constexpr uint16_t kShifts[32] = {0x8000, 0x4000, 0x2000, 0x1000, 0x0800, 0x0400, 0x0200, 0x0100,
                                                       0x8000, 0x4000, 0x2000, 0x1000, 0x0800, 0x0400, 0x0200, 0x0100,
                                                       0x8000, 0x4000, 0x2000, 0x1000, 0x0800, 0x0400, 0x0200, 0x0100,
                                                       0x8000, 0x4000, 0x2000, 0x1000, 0x0800, 0x0400, 0x0200, 0x0100};
  const auto shifts = hn::Load(d, kShifts);
  for (size_t column = 0; column < 4 && column < vectors; column += at_once) {
    auto low = hn::Zero(Floats()), high = hn::Zero(Floats());
    auto low_odd = low, high_odd = high;
    for (size_t vector = column; vector < vectors; vector += 4) {
      const auto words = hn::Load(d32, signs.words + 4 * vector);
      const auto of_lines = hn::BitCast(d, hn::Or(hn::And(words, hn::Set(d32, 0x0000FFFFu)), hn::ShiftLeft<16>(words)));
      const auto of_places =
          hn::BitCast(d, hn::Or(hn::ShiftRight<16>(words), hn::And(words, hn::Set(d32, 0xFFFF0000u))));
      const auto places = hn::Mul(of_places, shifts);
      const auto* from = as<uint16_t>(data + vector * kSketchVectorBytes);
      for_each_line(lines, [&](auto line) HWY_ATTR {
        constexpr int kLine = decltype(line)::value;
        const auto value = in_places<kLine>(d, hn::LoadU(d, from + kLine * (kSketchLineBytes / 2)));
        const auto sign =
            hn::And(hn::Xor(hn::ShiftLeft<15 - BlockSigns<8>::line_bit(kLine)>(of_lines), places), sign_bits);
        const auto bits = hn::Xor(value, sign);
        auto& into_low = kLine % 2 == 0 ? low : low_odd;
        auto& into_high = kLine % 2 == 0 ? high : high_odd;
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
        add_found(found[0] + 4 * i, 8 * (column + i), 4, place.flip, buckets);
        add_found(found[1] + 4 * i, 8 * (column + i) + 4, 4, place.flip, buckets);
      }
    } else {
      add_found(found[0], 8 * column, half, place.flip, buckets);
      add_found(found[1], 8 * column + half, half, place.flip, buckets);
    }
  }
}

void sketch_32(const std::byte* data, size_t lines, size_t vectors, uint64_t block, double* buckets) {
  const hn::ScalableTag<uint32_t> d;
  const size_t at_once = hn::Lanes(d) / 4;
  const BlockPlace<4> place(block);
  const BlockSigns<4> signs(place, (vectors + at_once - 1) / at_once * at_once);
  const auto sign_bits = hn::Set(d, 0x80000000u);
  alignas(64) static constexpr uint32_t kShifts[16] = {15, 14, 13, 12, 15, 14, 13, 12, 15, 14, 13, 12, 15, 14, 13, 12};
  const auto shifts = hn::Load(d, kShifts);
  for (size_t column = 0; column < 8 && column < vectors; column += at_once) {
    auto low = hn::Zero(Doubles()), high = hn::Zero(Doubles());
    auto low_odd = low, high_odd = high;
    for (size_t vector = column; vector < vectors; vector += 8) {
      const auto of_lines = hn::Load(d, signs.words + 4 * vector);
      const auto places = hn::Shl(of_lines, shifts);
      const auto* from = as<uint32_t>(data + vector * kSketchVectorBytes);
      for_each_line(lines, [&](auto line) HWY_ATTR {
        constexpr int kLine = decltype(line)::value;
        const auto value = in_places<kLine>(d, hn::LoadU(d, from + kLine * (kSketchLineBytes / 4)));
        const auto sign =
            hn::And(hn::Xor(hn::ShiftLeft<31 - BlockSigns<4>::line_bit(kLine)>(of_lines), places), sign_bits);
        const auto floats = hn::BitCast(Floats(), hn::Xor(value, sign));
        auto& into_low = kLine % 2 == 0 ? low : low_odd;
        auto& into_high = kLine % 2 == 0 ? high : high_odd;
        into_low = hn::Add(into_low, hn::PromoteTo(Doubles(), hn::LowerHalf(hn::Half<Floats>(), floats)));
        into_high = hn::Add(into_high, hn::PromoteTo(Doubles(), hn::UpperHalf(hn::Half<Floats>(), floats)));
      });
    }
    alignas(64) double found[2][8];
    hn::Store(hn::Add(low, low_odd), Doubles(), found[0]);
    hn::Store(hn::Add(high, high_odd), Doubles(), found[1]);
    const size_t half = hn::Lanes(Doubles());
    add_found(found[0], 4 * column, half, place.flip, buckets);
    add_found(found[1], 4 * column + half, half, place.flip, buckets);
  }
}

void sketch_64(const std::byte* data, size_t lines, size_t vectors, uint64_t block, double* buckets) {
  const hn::ScalableTag<uint64_t> d;
  const hn::ScalableTag<uint32_t> d32;
  const size_t at_once = hn::Lanes(d) / 2;
  const BlockPlace<2> place(block);
  const BlockSigns<2> signs(place, (vectors + at_once - 1) / at_once * at_once);
  const auto sign_bits = hn::Set(d, uint64_t{1} << 63);
  alignas(64) static constexpr uint64_t kShifts[8] = {47, 46, 47, 46, 47, 46, 47, 46};
  const auto shifts = hn::Load(d, kShifts);
  for (size_t column = 0; column < 16 && column < vectors; column += at_once) {
    // Lines of even rows, and of odd ones, whose places are those of the neighbour.
    auto even = hn::Zero(Doubles()), odd = hn::Zero(Doubles());
    for (size_t vector = column; vector < vectors; vector += 16) {
      // Of the two words of a value the lower one is enough.
      const auto of_lines = hn::BitCast(d, hn::Load(d32, signs.words + 4 * vector));
      const auto places = hn::Shl(of_lines, shifts);
      const auto odd_places = hn::Shl(hn::ShiftRight<2>(of_lines), shifts);
      const auto* from = as<uint64_t>(data + vector * kSketchVectorBytes);
      for_each_line(lines, [&](auto line) HWY_ATTR {
        constexpr int kLine = decltype(line)::value;
        constexpr bool kIsOdd = place_in_vector<2>(0, kLine) == 2;
        const auto value = hn::LoadU(d, from + kLine * (kSketchLineBytes / 8));
        const auto of_line = hn::ShiftLeft<63 - BlockSigns<2>::line_bit(kLine)>(of_lines);
        const auto sign = hn::And(hn::Xor(of_line, kIsOdd ? odd_places : places), sign_bits);
        auto& into = kIsOdd ? odd : even;
        into = hn::Add(into, hn::BitCast(Doubles(), hn::Xor(value, sign)));
      });
    }
    alignas(64) double found[2][8];
    hn::Store(even, Doubles(), found[0]);
    hn::Store(odd, Doubles(), found[1]);
    add_found(found[0], 2 * column, hn::Lanes(Doubles()), place.flip, buckets);
    add_found(found[1], 2 * column, hn::Lanes(Doubles()), place.flip ^ 2, buckets);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ttap
HWY_AFTER_NAMESPACE();

#endif  // a vector target
#endif  // per target
