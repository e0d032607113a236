#include "quant/row_kernels.h"

#include "quant/plain_rows.h"

namespace ttap {
namespace {

void encode_plain(QuantElement element, Scaling scaling, const float* values, size_t count, size_t run,
                  const float* factors, uint8_t* codes) {
  with_small_float(
      element, [&](auto format) { plain::encode<decltype(format)>(scaling, values, 0, count, run, factors, codes); });
}

void decode_plain(const uint8_t* codes, size_t count, size_t run, const float* table, const float* scales, float* out) {
  plain::decode(codes, 0, count, run, table, scales, out);
}

void decode_affine_plain(const uint8_t* codes, size_t count, size_t run, const float* table, const float* scales,
                         const float* zeros, float* out) {
  plain::decode_affine(codes, 0, count, run, table, scales, zeros, out);
}

}  // namespace

const RowKernels& plain_row_kernels() {
  static constexpr RowKernels kernels = {
      .name = "scalar",
      .decode = decode_plain,
      .decode_int8 = decode_plain,
      .decode_pairs = [](const uint8_t* bytes, size_t count, size_t run, const float* pairs, const float* scales,
                         float* out) { plain::decode_pairs(bytes, 0, count, run, pairs, scales, out); },
      .decode_affine = decode_affine_plain,
      .decode_affine_int8 = decode_affine_plain,
      .to_bf16 =
          [](const float* values, size_t count, uint16_t* out) {
            for (size_t i = 0; i < count; ++i) out[i] = plain::bf16_of(values[i]);
          },
      .to_f16 =
          [](const float* values, size_t count, uint16_t* out) {
            for (size_t i = 0; i < count; ++i) out[i] = plain::f16_of(values[i]);
          },
      .from_bf16 =
          [](const uint16_t* values, size_t count, float* out) {
            for (size_t i = 0; i < count; ++i) out[i] = f32_of_bf16(values[i]);
          },
      .from_f16 =
          [](const uint16_t* values, size_t count, float* out) {
            for (size_t i = 0; i < count; ++i) out[i] = f32_of_f16(values[i]);
          },
      .encode = encode_plain,
      .encode_integer =
          [](QuantElement element, const float* values, size_t count, size_t run, const float* factors,
             const float* zeros,
             uint8_t* codes) { plain::encode_integer(element, values, 0, count, run, factors, zeros, codes); },
      .extremes = [](const float* values, size_t count, size_t run, uint32_t* largest,
                     uint32_t* least) { plain::extremes(values, 0, count, run, largest, least); },
      .errors = [](const float* before, const float* after, size_t count, size_t run, const float* lower,
                   const float* upper,
                   RowErrors& errors) { plain::errors(before, after, 0, count, run, lower, upper, errors); },
  };
  return kernels;
}

const RowKernels& row_kernels(SimdPath wanted) {
  if (wanted == SimdPath::kScalar) return plain_row_kernels();
  const RowKernels* vector = vector_row_kernels(wanted);
  return vector != nullptr ? *vector : plain_row_kernels();
}

}  // namespace ttap
