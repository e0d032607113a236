#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analyze/compare/measures.h"
#include "analyze/compare/quant_picture.h"

namespace ttap {

// The error of a tensor drawn as a rectangle of at most kMostHeatCells cells a side: the last axis to the right (of a
// tensor of one dimension: folded into rows), all others down. A cell holds the largest |b − a| of its elements; +inf
// where NaN or infinity do not match.
struct HeatMap {
  uint64_t rows = 0;  // of elements, before thinning
  uint64_t columns = 0;
  uint64_t row_step = 1;  // elements in a cell, down and to the right
  uint64_t column_step = 1;
  uint64_t cells_down = 0;
  uint64_t cells_right = 0;
  std::vector<float> cells = {};  // row by row
};
inline constexpr uint64_t kMostHeatCells = 128;

// Finite values of both tensors in the same bins.
struct PairHistogram {
  double low = 0, high = 0;
  std::vector<uint64_t> a = {};
  std::vector<uint64_t> b = {};
};

// What the page shows of a tensor somebody looks at.
struct PairDetail {
  HeatMap heat = {};
  PairHistogram histogram = {};
  std::vector<AxisError> axes = {};
  std::vector<WorstPair> worst = {};  // the worst first
  // Of a side that is quantized; held against the other side where that is not.
  std::optional<QuantPicture> quant_a = {}, quant_b = {};
};

PairDetail detail_of(const TensorView& a, const TensorView& b, const MeasureOptions& options, size_t bins = 48,
                     size_t worst = 10);

}  // namespace ttap
