#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analyze/diff/sides/side.h"

// Several tensors in memory as one.
namespace ttap {

// Whether values of this dtype can be added up; averages only of floats.
bool can_sum(DType dtype, bool average);

// `parts` follow one another along `dim`; `shape` is that of the whole.
SideBytes concatenated(std::span<const SideBytes> parts, std::vector<int64_t> shape, size_t dim);

// All parts have this shape. Floats are added in double and rounded once, integers wrap.
SideBytes summed(std::span<const SideBytes> parts, std::vector<int64_t> shape, bool average);

// Bit for bit, element by element; both of the same dtype and shape.
bool same_bits(const TensorView& a, const TensorView& b);

}  // namespace ttap
