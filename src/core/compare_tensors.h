#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "ttap/api.h"
#include "ttap/compare.h"
#include "ttap/tensor_view.h"

namespace ttap {

// One element of any format.
using ElementBytes = std::array<std::byte, 16>;

// What one comparison found. The rest means something only when elements differ.
struct Comparison {
  uint64_t differing = 0;  // elements
  uint64_t first = 0;      // the first of them, counted in C order
  double largest = 0;      // distance of two elements that differ; infinite where it is no number
  ElementBytes actual = {};
  ElementBytes expected = {};
};

// Element by element, as difference_of() says. Both in the host's memory, of one dtype and shape, which passed
// validate().
TTAP_API Comparison compare_tensors(const TensorView& actual, const TensorView& expected, const Tolerance& tolerance);

}  // namespace ttap
