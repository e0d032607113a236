// Not a header of its own: the kernels for HWY_TARGET, compiled once for each (vector_row_kernels.cpp).
#if defined(TTAP_VECTOR_ROW_KERNELS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TTAP_VECTOR_ROW_KERNELS_INL
#undef TTAP_VECTOR_ROW_KERNELS_INL
#else
#define TTAP_VECTOR_ROW_KERNELS_INL
#endif

// Highway's emulation of vectors is no faster than the plain code.
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

HWY_BEFORE_NAMESPACE();
namespace ttap {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Words = hn::ScalableTag<uint32_t>;
using Integers = hn::ScalableTag<int32_t>;
using Bytes = hn::Rebind<uint8_t, Floats>;  // as many as there are floats
using Shorts = hn::Rebind<uint16_t, Floats>;

// Calls `step(i, parameters)` for whole vectors of a row and returns where the rest begins. `get(k)` makes the
// parameters of run k, `load(i)` those of the values from i on when each has its own.
template <class Load, class Get, class Step>
HWY_INLINE size_t for_vectors(size_t count, size_t run, Load&& load, Get&& get, Step&& step) {
  const size_t lanes = hn::Lanes(Floats());
  size_t i = 0;
  if (run == 1) {
    for (; i + lanes <= count; i += lanes) step(i, load(i));
    return i;
  }
  for (size_t k = 0; i + lanes <= count; ++k) {
    const auto parameters = get(k);
    const size_t end = HWY_MIN(count, i + run);
    for (; i + lanes <= end; i += lanes) step(i, parameters);
  }
  return i;
}

// The same with one float as the parameter.
template <class Step>
HWY_INLINE size_t for_scaled(size_t count, size_t run, const float* scales, Step&& step) {
  const Floats d;
  return for_vectors(
      count, run, [&](size_t i) HWY_ATTR { return hn::LoadU(d, scales + i); },
      [&](size_t k) HWY_ATTR { return hn::Set(d, scales[k]); }, step);
}

// The values of codes, in one of two ways.
struct LookUp {
  static HWY_INLINE hn::Vec<Floats> values(const float* table, const uint8_t* codes) {
    return hn::GatherIndex(Floats(), table, hn::PromoteTo(Integers(), hn::LoadU(Bytes(), codes)));
  }
};
struct ConvertInt8 {
  static HWY_INLINE hn::Vec<Floats> values(const float*, const uint8_t* codes) {
    const hn::Rebind<int8_t, Floats> d8;
    return hn::ConvertTo(Floats(), hn::PromoteTo(Integers(), hn::BitCast(d8, hn::LoadU(Bytes(), codes))));
  }
};

// As ttap::with_one_nan(), for a vector.
HWY_INLINE hn::Vec<Floats> with_one_nan(hn::Vec<Floats> values) {
  const auto nan = hn::BitCast(Floats(), hn::Set(Words(), 0x7FC00000u));
  return hn::IfThenElse(hn::IsNaN(values), nan, values);
}

template <class Codes>
void decode(const uint8_t* codes, size_t count, size_t run, const float* table, const float* scales, float* out) {
  const Floats d;
  const size_t rest = for_scaled(count, run, scales, [&](size_t i, auto scale) HWY_ATTR {
    hn::StoreU(with_one_nan(hn::Mul(Codes::values(table, codes + i), scale)), d, out + i);
  });
  plain::decode(codes, rest, count, run, table, scales, out);
}

void decode_pairs(const uint8_t* bytes, size_t count, size_t run, const float* pairs, const float* scales, float* out) {
  const Floats d;
  const hn::ScalableTag<uint64_t> d64;
  const hn::ScalableTag<int64_t> di64;
  const hn::Rebind<uint32_t, decltype(d64)> d32;
  const hn::Rebind<uint8_t, decltype(d64)> half;
  const auto* table = reinterpret_cast<const uint64_t*>(pairs);
  const size_t rest = for_scaled(count, run, scales, [&](size_t i, auto scale) HWY_ATTR {
    const auto indices = hn::BitCast(di64, hn::PromoteTo(d64, hn::PromoteTo(d32, hn::LoadU(half, bytes + i / 2))));
    const auto values = hn::BitCast(d, hn::GatherIndex(d64, table, indices));
    hn::StoreU(with_one_nan(hn::Mul(values, scale)), d, out + i);
  });
  plain::decode_pairs(bytes, rest, count, run, pairs, scales, out);
}

template <class Codes>
void decode_affine(const uint8_t* codes, size_t count, size_t run, const float* table, const float* scales,
                   const float* zeros, float* out) {
  const Floats d;
  struct Affine {
    hn::Vec<Floats> scale, zero;
  };
  const size_t rest = for_vectors(
      count, run,
      [&](size_t i) HWY_ATTR {
        return Affine{hn::LoadU(d, scales + i), hn::LoadU(d, zeros + i)};
      },
      [&](size_t k) HWY_ATTR {
        return Affine{hn::Set(d, scales[k]), hn::Set(d, zeros[k])};
      },
      [&](size_t i, const Affine& affine) HWY_ATTR {
        const auto shifted = hn::Sub(Codes::values(table, codes + i), affine.zero);
        hn::StoreU(with_one_nan(hn::Mul(shifted, affine.scale)), d, out + i);
      });
  plain::decode_affine(codes, rest, count, run, table, scales, zeros, out);
}

void to_bf16(const float* values, size_t count, uint16_t* out) {
  const Words d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto bits = hn::BitCast(d, hn::LoadU(Floats(), values + i));
    const auto top = hn::ShiftRight<16>(bits);
    const auto odd = hn::And(top, hn::Set(d, 1u));
    const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7FFFu))));
    const auto is_nan = hn::Gt(hn::And(bits, hn::Set(d, 0x7FFFFFFFu)), hn::Set(d, 0x7F800000u));
    const auto result = hn::IfThenElse(is_nan, hn::Or(top, hn::Set(d, 0x40u)), rounded);
    hn::StoreU(hn::TruncateTo(Shorts(), result), Shorts(), out + i);
  }
  for (; i < count; ++i) out[i] = plain::bf16_of(values[i]);
}

void to_f16(const float* values, size_t count, uint16_t* out) {
  const hn::Rebind<hwy::float16_t, Floats> half;
  const size_t lanes = hn::Lanes(Floats());
  size_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(hn::BitCast(Shorts(), hn::DemoteTo(half, hn::LoadU(Floats(), values + i))), Shorts(), out + i);
  for (; i < count; ++i) out[i] = plain::f16_of(values[i]);
}

void from_bf16(const uint16_t* values, size_t count, float* out) {
  const Words d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto bits = hn::ShiftLeft<16>(hn::PromoteTo(d, hn::LoadU(Shorts(), values + i)));
    hn::StoreU(hn::BitCast(Floats(), bits), Floats(), out + i);
  }
  for (; i < count; ++i) out[i] = f32_of_bf16(values[i]);
}

void from_f16(const uint16_t* values, size_t count, float* out) {
  const hn::Rebind<hwy::float16_t, Floats> half;
  const size_t lanes = hn::Lanes(Floats());
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto halves = hn::BitCast(half, hn::LoadU(Shorts(), values + i));
    hn::StoreU(hn::PromoteTo(Floats(), halves), Floats(), out + i);
  }
  for (; i < count; ++i) out[i] = f32_of_f16(values[i]);
}

// As code_of(), for a vector.
template <class F>
HWY_INLINE hn::Vec<Words> codes_of(hn::Vec<Floats> values) {
  const Floats df;
  const Words d;
  const auto bits = hn::BitCast(d, values);
  const auto sign = hn::And(bits, hn::Set(d, 0x80000000u));
  const auto magnitude = hn::Xor(bits, sign);
  const auto odd = hn::And(hn::ShiftRight<23 - F::kMantissa>(magnitude), hn::Set(d, 1u));
  auto code = hn::ShiftRight<23 - F::kMantissa>(hn::Add(hn::Add(magnitude, odd), hn::Set(d, uint32_t{F::kRebias})));
  const auto step = hn::Set(d, uint32_t{F::kStep});
  const auto small = hn::Sub(hn::BitCast(d, hn::Add(hn::BitCast(df, magnitude), hn::BitCast(df, step))), step);
  code = hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, uint32_t{F::kSmallestNormal})), small, code);
  const auto is_nan = hn::Gt(magnitude, hn::Set(d, 0x7F800000u));
  const auto saturates = hn::AndNot(is_nan, hn::Gt(magnitude, hn::Set(d, uint32_t{F::kLargest - 1})));
  code = hn::IfThenElse(saturates, hn::Set(d, uint32_t{F::kLargestCode}), code);
  if constexpr (F::kNanCode != 0 && F::kNegativeZero)
    code = hn::IfThenElse(is_nan, hn::Set(d, uint32_t{F::kNanCode}), code);
  auto signed_code = hn::Or(code, hn::ShiftRight<F::kSignShift>(sign));
  if constexpr (!F::kNegativeZero) {
    const auto is_zero = hn::Eq(hn::And(code, hn::Set(d, 0xFFu)), hn::Zero(d));
    signed_code = hn::IfThenZeroElse(is_zero, signed_code);
    signed_code = hn::IfThenElse(is_nan, hn::Set(d, uint32_t{F::kNanCode}), signed_code);
  }
  return hn::And(signed_code, hn::Set(d, 0xFFu));
}

template <class F>
HWY_INLINE void encode_as(Scaling scaling, const float* values, size_t count, size_t run, const float* factors,
                          uint8_t* codes) {
  const Floats d;
  const auto store = [&](size_t i, auto scaled)
                         HWY_ATTR { hn::StoreU(hn::TruncateTo(Bytes(), codes_of<F>(scaled)), Bytes(), codes + i); };
  const size_t rest =
      scaling == Scaling::kMultiply
          ? for_scaled(count, run, factors,
                       [&](size_t i, auto factor) HWY_ATTR { store(i, hn::Mul(hn::LoadU(d, values + i), factor)); })
          : for_scaled(count, run, factors,
                       [&](size_t i, auto factor) HWY_ATTR { store(i, hn::Div(hn::LoadU(d, values + i), factor)); });
  plain::encode<F>(scaling, values, rest, count, run, factors, codes);
}

void encode(QuantElement element, Scaling scaling, const float* values, size_t count, size_t run, const float* factors,
            uint8_t* codes) {
  switch (element) {
    case QuantElement::kE5M2: return encode_as<CodeE5M2>(scaling, values, count, run, factors, codes);
    case QuantElement::kE4M3Fnuz: return encode_as<CodeE4M3Fnuz>(scaling, values, count, run, factors, codes);
    case QuantElement::kE5M2Fnuz: return encode_as<CodeE5M2Fnuz>(scaling, values, count, run, factors, codes);
    case QuantElement::kE2M3: return encode_as<CodeE2M3>(scaling, values, count, run, factors, codes);
    case QuantElement::kE3M2: return encode_as<CodeE3M2>(scaling, values, count, run, factors, codes);
    case QuantElement::kE2M1: return encode_as<CodeE2M1>(scaling, values, count, run, factors, codes);
    default: return encode_as<CodeE4M3>(scaling, values, count, run, factors, codes);
  }
}

void encode_integer(QuantElement element, const float* values, size_t count, size_t run, const float* factors,
                    const float* zeros, uint8_t* codes) {
  const Floats d;
  const Words dw;
  const IntegerRange range = integer_range(element);
  const auto lowest = hn::Set(d, static_cast<float>(range.lowest));
  const auto highest = hn::Set(d, static_cast<float>(range.highest));
  const auto mask = hn::Set(dw, bits_of(element) == 4 ? 0xFu : 0xFFu);
  struct Affine {
    hn::Vec<Floats> factor, zero;
  };
  const size_t rest = for_vectors(
      count, run,
      [&](size_t i) HWY_ATTR {
        return Affine{hn::LoadU(d, factors + i), hn::LoadU(d, zeros + i)};
      },
      [&](size_t k) HWY_ATTR {
        return Affine{hn::Set(d, factors[k]), hn::Set(d, zeros[k])};
      },
      [&](size_t i, const Affine& affine) HWY_ATTR {
        const auto scaled = hn::Add(hn::Round(hn::Mul(hn::LoadU(d, values + i), affine.factor)), affine.zero);
        const auto known = hn::IfThenElseZero(hn::Eq(scaled, scaled), scaled);
        const auto within = hn::Min(hn::Max(known, lowest), highest);
        const auto code = hn::And(hn::BitCast(dw, hn::ConvertTo(Integers(), within)), mask);
        const auto is_nan = hn::RebindMask(dw, hn::Ne(scaled, scaled));
        hn::StoreU(hn::TruncateTo(Bytes(), hn::IfThenZeroElse(is_nan, code)), Bytes(), codes + i);
      });
  plain::encode_integer(element, values, rest, count, run, factors, zeros, codes);
}

void extremes(const float* values, size_t count, size_t run, uint32_t* largest, uint32_t* least) {
  const Words d;
  const size_t lanes = hn::Lanes(d);
  const auto load = [&](size_t i) HWY_ATTR {
    return hn::And(hn::BitCast(d, hn::LoadU(Floats(), values + i)), hn::Set(d, 0x7FFFFFFFu));
  };
  const auto one = hn::Set(d, 1u);
  size_t i = 0;
  if (run == 1) {
    for (; i + lanes <= count; i += lanes) {
      const auto magnitude = load(i);
      hn::StoreU(hn::Max(hn::LoadU(d, largest + i), magnitude), d, largest + i);
      hn::StoreU(hn::Min(hn::LoadU(d, least + i), hn::Sub(magnitude, one)), d, least + i);
    }
  } else {
    for (size_t k = 0; i + lanes <= count; ++k) {
      auto top = hn::Set(d, largest[k]);
      auto bottom = hn::Set(d, least[k]);
      const size_t end = HWY_MIN(count, i + run);
      for (; i + lanes <= end; i += lanes) {
        const auto magnitude = load(i);
        top = hn::Max(top, magnitude);
        bottom = hn::Min(bottom, hn::Sub(magnitude, one));
      }
      largest[k] = hn::GetLane(hn::MaxOfLanes(d, top));
      least[k] = hn::GetLane(hn::MinOfLanes(d, bottom));
    }
  }
  plain::extremes(values, i, count, run, largest, least);
}

void errors(const float* before, const float* after, size_t count, size_t run, const float* lower, const float* upper,
            RowErrors& found) {
  const Floats d;
  const hn::ScalableTag<double> dd;
  const hn::Half<Floats> half;
  struct Edges {
    hn::Vec<Floats> lower, upper;
  };
  auto squares = hn::Zero(dd), error_squares = hn::Zero(dd), max_error = hn::Zero(dd);
  const size_t rest = for_vectors(
      count, run,
      [&](size_t i) HWY_ATTR {
        return Edges{hn::LoadU(d, lower + i), hn::LoadU(d, upper + i)};
      },
      [&](size_t k) HWY_ATTR {
        return Edges{hn::Set(d, lower[k]), hn::Set(d, upper[k])};
      },
      [&](size_t i, const Edges& edges) HWY_ATTR {
        const auto x = hn::LoadU(d, before + i);
        const auto y = hn::LoadU(d, after + i);
        const auto finite = hn::IsFinite(x);
        const auto kept = hn::IsFinite(y);
        const auto beyond = hn::Or(hn::Gt(x, edges.upper), hn::Lt(x, edges.lower));
        const auto overflow = hn::And(finite, hn::Or(hn::Not(kept), beyond));
        const auto underflow = hn::And(hn::And(finite, hn::Ne(x, hn::Zero(d))), hn::Eq(y, hn::Zero(d)));
        found.not_finite += hn::CountTrue(d, hn::Not(finite));
        found.overflow += hn::CountTrue(d, overflow);
        found.underflow += hn::CountTrue(d, underflow);
        const auto both = hn::And(finite, kept);
        const auto known_x = hn::IfThenElseZero(both, x);
        const auto known_y = hn::IfThenElseZero(both, y);
        const auto take = [&](auto wide_x, auto wide_y) HWY_ATTR {
          const auto error = hn::Sub(wide_x, wide_y);
          squares = hn::MulAdd(wide_x, wide_x, squares);
          error_squares = hn::MulAdd(error, error, error_squares);
          max_error = hn::Max(max_error, hn::Abs(error));
        };
        take(hn::PromoteTo(dd, hn::LowerHalf(half, known_x)), hn::PromoteTo(dd, hn::LowerHalf(half, known_y)));
        take(hn::PromoteTo(dd, hn::UpperHalf(half, known_x)), hn::PromoteTo(dd, hn::UpperHalf(half, known_y)));
      });
  found.squares += hn::GetLane(hn::SumOfLanes(dd, squares));
  found.error_squares += hn::GetLane(hn::SumOfLanes(dd, error_squares));
  const double largest = hn::GetLane(hn::MaxOfLanes(dd, max_error));
  if (largest > found.max_error) found.max_error = largest;
  plain::errors(before, after, rest, count, run, lower, upper, found);
}

constexpr RowKernels kRowKernels = {.name = HWY_TARGET == HWY_AVX3   ? "avx512"
                                            : HWY_TARGET == HWY_AVX2 ? "avx2"
                                                                     : "neon",
                                    .decode = decode<LookUp>,
                                    .decode_int8 = decode<ConvertInt8>,
                                    .decode_pairs = decode_pairs,
                                    .decode_affine = decode_affine<LookUp>,
                                    .decode_affine_int8 = decode_affine<ConvertInt8>,
                                    .to_bf16 = to_bf16,
                                    .to_f16 = to_f16,
                                    .from_bf16 = from_bf16,
                                    .from_f16 = from_f16,
                                    .encode = encode,
                                    .encode_integer = encode_integer,
                                    .extremes = extremes,
                                    .errors = errors};

}  // namespace HWY_NAMESPACE
}  // namespace ttap
HWY_AFTER_NAMESPACE();

#endif  // a vector target
#endif  // per target
