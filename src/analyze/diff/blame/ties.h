#pragma once

#include <cstdint>
#include <span>

#include "analyze/diff/blame/call_nodes.h"

// Where the order of values is free, two runs may choose another one, and both are right.
namespace ttap {

// Whether the tensor is the indices of a sort (or a top-k) of the same keys, and those of both sides stand for equal
// keys at every place. Without the bytes, unless `strict`: whether they are the same indices in another order.
bool chooses_among_equal_keys(CallNodes& calls, std::span<const TensorDiff> tensors, uint32_t i, bool strict);

// Whether code sorted the argument of a module otherwise: it has the same rows in another order, as far as the
// statistics tell where there are no bytes, and what the call around the module returns agrees, which put them back.
bool is_order_that_agrees_later(CallNodes& calls, std::span<const TensorDiff> tensors, uint32_t i);

}  // namespace ttap
