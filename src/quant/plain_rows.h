#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "core/element.h"
#include "quant/code_value.h"
#include "quant/element_codes.h"
#include "quant/row_kernels.h"

// One value at a time: the scalar path, and what finishes the odd values at the end of the others. `first` is where in
// the row the values begin.
namespace ttap::plain {

inline void decode(const uint8_t* codes, size_t first, size_t count, size_t run, const float* table,
                   const float* scales, float* out) {
  for (size_t i = first; i < count; ++i) out[i] = with_one_nan(table[codes[i]] * scales[i / run]);
}

inline void decode_pairs(const uint8_t* bytes, size_t first, size_t count, size_t run, const float* pairs,
                         const float* scales, float* out) {
  for (size_t i = first; i < count; ++i)
    out[i] = with_one_nan(pairs[2 * size_t{bytes[i / 2]} + i % 2] * scales[i / run]);
}

inline void decode_affine(const uint8_t* codes, size_t first, size_t count, size_t run, const float* table,
                          const float* scales, const float* zeros, float* out) {
  for (size_t i = first; i < count; ++i) out[i] = with_one_nan((table[codes[i]] - zeros[i / run]) * scales[i / run]);
}

using ttap::bf16_of;
using ttap::f16_of;

template <class F>
void encode(Scaling scaling, const float* values, size_t first, size_t count, size_t run, const float* factors,
            uint8_t* codes) {
  for (size_t i = first; i < count; ++i) {
    const float factor = factors[i / run];
    codes[i] = code_of<F>(scaling == Scaling::kMultiply ? values[i] * factor : values[i] / factor);
  }
}

// NaN becomes the lowest or 0; a library may differ.
inline void encode_integer(QuantElement element, const float* values, size_t first, size_t count, size_t run,
                           const float* factors, const float* zeros, uint8_t* codes) {
  const IntegerRange range = integer_range(element);
  const auto mask = static_cast<uint8_t>(bits_of(element) == 4 ? 0xF : 0xFF);
  for (size_t i = first; i < count; ++i) {
    const float scaled = std::nearbyint(values[i] * factors[i / run]) + zeros[i / run];
    const float within =
        std::min(std::max(scaled, static_cast<float>(range.lowest)), static_cast<float>(range.highest));
    codes[i] = std::isnan(scaled) ? uint8_t{0} : static_cast<uint8_t>(static_cast<int>(within) & mask);
  }
}

inline void extremes(const float* values, size_t first, size_t count, size_t run, uint32_t* largest, uint32_t* least) {
  for (size_t i = first; i < count; ++i) {
    const uint32_t magnitude = std::bit_cast<uint32_t>(values[i]) & 0x7FFFFFFF;
    largest[i / run] = std::max(largest[i / run], magnitude);
    least[i / run] = std::min(least[i / run], magnitude - 1);
  }
}

inline void errors(const float* before, const float* after, size_t first, size_t count, size_t run, const float* lower,
                   const float* upper, RowErrors& found) {
  for (size_t i = first; i < count; ++i) {
    const double x = before[i];
    const double y = after[i];
    if (!std::isfinite(x)) {
      ++found.not_finite;
      continue;
    }
    const bool lost = !std::isfinite(y);
    if (x != 0 && y == 0) ++found.underflow;
    if (lost || before[i] > upper[i / run] || before[i] < lower[i / run]) ++found.overflow;
    if (lost) continue;
    found.squares += x * x;
    found.error_squares += (x - y) * (x - y);
    found.max_error = std::max(found.max_error, std::fabs(x - y));
  }
}

}  // namespace ttap::plain
