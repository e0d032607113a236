#pragma once

#include <span>

#include "analyze/diff/result/verdict.h"
#include "analyze/diff/sides/side.h"

namespace ttap {

// When all pairs are compared: quantized tensors of which no values could be had are identical where all of their parts
// are, in the same format. Parts that differ may stand for the same values.
void judge_by_parts(const Side& a, const Side& b, std::span<TensorDiff> tensors);

}  // namespace ttap
