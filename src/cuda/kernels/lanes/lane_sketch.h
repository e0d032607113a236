#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cuda/kernels/lanes/compiler.h"
#include "cuda/kernels/lanes/lane_format.h"
#include "cuda/kernels/lanes/lane_hash.h"
#include "fingerprint/sketch_places.h"

// What one lane of a kernel adds up of a unit's sketch: it has the same group of every row. Plain arithmetic, so that
// tests run it on the host.
namespace ttap::cuda {

template <class F>
struct LaneSketch {
  static constexpr uint32_t kValues = kVectorBytes * 8 / F::kBits;
  // Sums of a unit's 16-bit values are short enough for f32.
  using Cell = std::conditional_t<F::kBits == 16, float, double>;
  Cell cells[kValues] = {};  // by place

  // One with the sign of bit `row`.
  TTAP_HD static Cell sign_of(uint32_t signs, uint32_t row) {
    const uint32_t sign = signs << (31 - row) & 0x80000000u;
    if constexpr (std::is_same_v<Cell, float>) {
      return ttap::detail::float_of_bits(sign | 0x3F800000u);
    } else {
      const uint64_t bits = static_cast<uint64_t>(sign | 0x3FF00000u) << 32;
      double one;
      memcpy(&one, &bits, sizeof one);
      return one;
    }
  }

  // Value number `i` of a vector in that row.
  TTAP_HD void add(Cell value, uint32_t i, uint32_t row, Cell sign) {
    Cell& cell = cells[sketch_place<F::kBits / 8>(i, row)];
    if constexpr (std::is_same_v<Cell, float>)
      cell = fmaf(value, sign, cell);
    else
      cell = fma(value, sign, cell);
  }
  TTAP_HD void add(const LaneSketch& other) {
    TTAP_UNROLL
    for (uint32_t i = 0; i < kValues; ++i) cells[i] += other.cells[i];
  }
  // A whole vector. COUNTED: some values may be beyond the limit.
  template <bool COUNTED>
  TTAP_HD void add(const Vector& vector, uint32_t row, Cell sign) {
    TTAP_UNROLL
    for (uint32_t i = 0; i < kValues; ++i) {
      const Cell value = value_of(vector, i);
      add(!COUNTED || fabs(value) < static_cast<Cell>(kSketchLimit) ? value : 0, i, row, sign);
    }
  }

  // With the sign of its place.
  TTAP_HD Cell signed_cell(uint32_t place, uint32_t signs) const { return cells[place] * sign_of(signs, 16 + place); }

 private:
  TTAP_HD static Cell value_of(const Vector& vector, uint32_t i) {
    if constexpr (F::kBits == 16)
      return i % 2 == 0 ? F::low_f32(vector.word[i / 2]) : F::high_f32(vector.word[i / 2]);
    else if constexpr (F::kBits == 32)
      return F::value(vector.word[i]);
    else
      return F::value(vector.word[2 * i] | static_cast<uint64_t>(vector.word[2 * i + 1]) << 32);
  }
};

// The words of a vector as a row of that number asks for, where it is not known when compiling.
template <class F>
TTAP_HD inline Vector rotated_for_sketch(const Vector& vector, uint32_t row) {
  constexpr uint32_t kOneWord = F::kBits == 64 ? 0 : 1, kTwoWords = F::kBits == 64 ? 1 : 2;
  Vector turned = vector;
  if ((row & kOneWord) != 0) turned = {{turned.word[1], turned.word[2], turned.word[3], turned.word[0]}};
  if ((row & kTwoWords) != 0) turned = {{turned.word[2], turned.word[3], turned.word[0], turned.word[1]}};
  return turned;
}

}  // namespace ttap::cuda
