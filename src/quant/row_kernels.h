#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ttap/fingerprint.h"
#include "ttap/quant.h"

// The inner loops over one row, one set per vector path. `run` neighbours share a parameter: 1, or a multiple of 16;
// the last run may be shorter.
namespace ttap {

enum class Scaling : uint8_t { kMultiply, kDivide };

// What a row lost. Sums in double.
struct RowErrors {
  uint64_t not_finite = 0;  // before
  uint64_t underflow = 0;
  uint64_t overflow = 0;
  double squares = 0;  // of what was finite before and after
  double error_squares = 0;
  double max_error = 0;
};

struct RowKernels {
  std::string_view name;

  // table[code] · scale
  void (*decode)(const uint8_t* codes, size_t count, size_t run, const float* table, const float* scales, float* out);
  // The same of codes that are int8: converted, which is quicker than looking them up.
  void (*decode_int8)(const uint8_t* codes, size_t count, size_t run, const float* table, const float* scales,
                      float* out);
  // Two codes a byte, `pairs` the values of both. No run but the last is odd.
  void (*decode_pairs)(const uint8_t* bytes, size_t count, size_t run, const float* pairs, const float* scales,
                       float* out);
  // (table[code] − zero) · scale
  void (*decode_affine)(const uint8_t* codes, size_t count, size_t run, const float* table, const float* scales,
                        const float* zeros, float* out);
  void (*decode_affine_int8)(const uint8_t* codes, size_t count, size_t run, const float* table, const float* scales,
                             const float* zeros, float* out);

  void (*to_bf16)(const float* values, size_t count, uint16_t* out);
  void (*to_f16)(const float* values, size_t count, uint16_t* out);
  void (*from_bf16)(const uint16_t* values, size_t count, float* out);
  void (*from_f16)(const uint16_t* values, size_t count, float* out);

  // The code of value · factor, or value / factor, one a byte. Float elements.
  void (*encode)(QuantElement element, Scaling scaling, const float* values, size_t count, size_t run,
                 const float* factors, uint8_t* codes);
  // round(value · factor) + zero, within the range of the element.
  void (*encode_integer)(QuantElement element, const float* values, size_t count, size_t run, const float* factors,
                         const float* zeros, uint8_t* codes);

  // Takes the magnitudes of a row into those of each run: the bits of the largest (a NaN is larger than infinity), and
  // those of the smallest that is not zero, less one.
  void (*extremes)(const float* values, size_t count, size_t run, uint32_t* largest, uint32_t* least);

  // `lower` and `upper`: beyond these a value overflows. NaN never does.
  void (*errors)(const float* before, const float* after, size_t count, size_t run, const float* lower,
                 const float* upper, RowErrors& errors);
};

const RowKernels& plain_row_kernels();
// Null when the CPU has none that are not above `limit`.
const RowKernels* vector_row_kernels(SimdPath limit);
const RowKernels& row_kernels(SimdPath wanted = SimdPath::kBest);

}  // namespace ttap
