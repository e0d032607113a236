#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "analyze/values/number.h"

namespace ttap {

// How many values lie where. Integers are counted exactly: a bin holds low ≤ x ≤ high, and there is one bin per value
// when they are few. Otherwise a bin holds low ≤ x < high, the last one its high as well. A constant tensor has one
// bin, a tensor without finite values none.
struct Histogram {
  struct Bin {
    Number low;
    Number high;
    uint64_t count = 0;
  };
  std::vector<Bin> bins = {};
  uint64_t finite = 0;     // values counted
  uint64_t nonfinite = 0;  // values left out
};

// Over the finite values of a view that passed validate(), with at most `bins` bins (at least 1). Reads the tensor
// twice.
Histogram histogram(const TensorView& view, size_t bins);

}  // namespace ttap
