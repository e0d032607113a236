#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analyze/diff/sides/side.h"

// Several tensors in memory as one.
namespace ttap {

enum class Combine : uint8_t { kSum, kAverage, kProduct };

// Whether values of this dtype can be combined; integers only be added up.
bool can_combine(DType dtype, Combine how);

// `parts` follow one another along `dim`; `shape` is that of the whole.
SideBytes concatenated(std::span<const SideBytes> parts, std::vector<int64_t> shape, size_t dim);

// Elements `begin` to `begin + size` along `dim`; it has no bytes of its own.
SideBytes narrowed(const TensorView& whole, size_t dim, int64_t begin, int64_t size);

// All parts have this shape. Floats are combined in double and rounded once, integers wrap.
SideBytes combined(std::span<const SideBytes> parts, std::vector<int64_t> shape, Combine how);

// Every value times `factor`, in double, rounded once.
SideBytes scaled(const SideBytes& part, double factor);

// Bit for bit, element by element; both of the same dtype and shape.
bool same_bits(const TensorView& a, const TensorView& b);

}  // namespace ttap
