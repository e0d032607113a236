#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cuda/kernels/lanes/compiler.h"
#include "cuda/kernels/lanes/lane_format.h"
#include "cuda/kernels/lanes/lane_hash.h"
#include "fingerprint/sketch_places.h"

// What one lane of a kernel adds up of a unit's sketch: it has the same vector of some lines. Plain arithmetic, so that
// tests run it on the host.
namespace ttap::cuda {

template <class F>
struct LaneSketch {
  static constexpr uint32_t kValues = kVectorBytes * 8 / F::kBits;
  // Where a vector has two values, odd rows have places of their own (place_in_vector()).
  static constexpr uint32_t kCells = kValues == 2 ? 4 : kValues;
  // Sums of a unit's 16-bit values are short enough for f32.
  using Cell = std::conditional_t<F::kBits == 16, float, double>;
  using Signs = VectorSigns<kValues>;
  Cell cells[kCells] = {};  // by place

  // One with the sign of a line.
  TTAP_HD static Cell sign_of_line(const Signs& signs, uint32_t line) {
    return one_with(signs.line_word(line), Signs::line_bit(line));
  }

  // Value number `i` of a vector in that line.
  TTAP_HD void add(Cell value, uint32_t i, uint32_t line, Cell sign) {
    Cell& cell = cells[place_in_vector<kValues>(i, line)];
    if constexpr (std::is_same_v<Cell, float>)
      cell = fmaf(value, sign, cell);
    else
      cell = fma(value, sign, cell);
  }
  TTAP_HD void add(const LaneSketch& other) {
    TTAP_UNROLL
    for (uint32_t i = 0; i < kCells; ++i) cells[i] += other.cells[i];
  }
  // A whole vector. COUNTED: some values may be beyond the limit.
  template <bool COUNTED>
  TTAP_HD void add(const Vector& vector, uint32_t line, Cell sign) {
    TTAP_UNROLL
    for (uint32_t i = 0; i < kValues; ++i) {
      const Cell value = value_of(vector, i);
      add(!COUNTED || fabs(value) < static_cast<Cell>(kSketchLimit) ? value : 0, i, line, sign);
    }
  }
  // Lines count from the first one after four more.
  TTAP_HD void skip_four_lines() {
    if constexpr (kValues == 2)  // from an even row to an odd one, or back
      for (uint32_t i = 0; i < 2; ++i) {
        const Cell cell = cells[i];
        cells[i] = cells[i + 2];
        cells[i + 2] = cell;
      }
  }

  TTAP_HD Cell signed_cell(uint32_t place, const Signs& signs) const {
    return cells[place] * one_with(signs.of_places, place);
  }

 private:
  // One with the sign of a bit.
  TTAP_HD static Cell one_with(uint32_t word, uint32_t bit) {
    const uint32_t sign = word << (31 - bit) & 0x80000000u;
    if constexpr (std::is_same_v<Cell, float>) {
      return ttap::detail::float_of_bits(sign | 0x3F800000u);
    } else {
      const uint64_t bits = static_cast<uint64_t>(sign | 0x3FF00000u) << 32;
      double one;
      memcpy(&one, &bits, sizeof one);
      return one;
    }
  }
  TTAP_HD static Cell value_of(const Vector& vector, uint32_t i) {
    if constexpr (F::kBits == 16)
      return i % 2 == 0 ? F::low_f32(vector.word[i / 2]) : F::high_f32(vector.word[i / 2]);
    else if constexpr (F::kBits == 32)
      return F::value(vector.word[i]);
    else
      return F::value(vector.word[2 * i] | static_cast<uint64_t>(vector.word[2 * i + 1]) << 32);
  }
};

// Where a hash block begins among the units of its tensor.
template <class F>
struct BlockInUnit {
  static constexpr uint32_t kLines = kSketchUnitValues * (F::kBits / 8) / kSketchLineBytes;  // of a unit
  static constexpr uint32_t kBlocks = kLines / kSketchBlockLines;
  uint64_t unit;
  uint32_t line;

  TTAP_HD explicit BlockInUnit(uint64_t block)
      : unit(block / kBlocks), line(static_cast<uint32_t>(block % kBlocks) * kSketchBlockLines) {}
};

}  // namespace ttap::cuda
