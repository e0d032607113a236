#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "analyze/values/number.h"
#include "ttap/result.h"

namespace ttap {

// A few values of a tensor as a matrix: the edges of its last two dimensions, at index 0 of all others. A vector is
// one row; a 0-d tensor is one value.
struct Sample {
  std::vector<int64_t> fixed = {};    // index in the dimensions before the last two
  std::vector<int64_t> rows = {};     // those shown; a step of more than 1 is a gap
  std::vector<int64_t> columns = {};  // likewise
  int parts = 1;                      // values of one element
  std::vector<Number> values = {};    // rows × columns × parts
};

// Shows a dimension whole when it is at most twice its edge long. The view must pass validate().
Sample sample(const TensorView& view, size_t edge_rows, size_t edge_columns);

// What is left of a view at an index in its first dimensions; negative indices count from the end. The result points
// into `view`, its shape and its strides, so the view must have strides. kInvalidArgument for an index outside.
Result<TensorView> select(const TensorView& view, std::span<const int64_t> index);

}  // namespace ttap
