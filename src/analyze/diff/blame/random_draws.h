#pragma once

#include <cstdint>
#include <span>

#include "analyze/diff/result/verdict.h"
#include "analyze/diff/sides/side.h"

namespace ttap {

// Whether the call that made a tensor draws random numbers.
bool is_random_draw(const Side& side, uint32_t tensor);

// A draw that only one side makes shifts the state of the generator: every draw after it is another. Where an operator
// that draws is said to have introduced an error, and the draw before it has no counterpart, that one is to blame.
// After find_causes().
void blame_extra_draws(const Side& a, const Side& b, std::span<TensorDiff> tensors);

}  // namespace ttap
