#pragma once

#include <span>

#include "analyze/diff/result/verdict.h"
#include "analyze/diff/sides/side.h"

namespace ttap {

// Says of parameters that differ what is different about them: rows that are swapped, moved, negated or zero, where
// only some differ. No call made them, so that is all there is to say.
void explain_weights(const Side& a, const Side& b, std::span<TensorDiff> tensors);

}  // namespace ttap
