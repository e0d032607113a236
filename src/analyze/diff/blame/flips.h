#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "analyze/diff/blame/call_nodes.h"

namespace ttap {

// Whether a tensor that diverged is a choice (an index, a truth value) that rounding turned: all that went into its
// call agrees, though not bit for bit, and what was chosen agrees too; where the call does not give that, few of the
// choices are others. A choice between the same bits is the call's own, but between equal keys of a sort (below).
// Likewise the gradient of an activation with a threshold, where rounding carries values past it: those elements are
// zero on one side only, are few, and have all of the error. And the order of what is sorted by equal keys (ties.h):
// the indices, and values in that order where only one side shows the sort. Returns why it is; empty where it is not.
// `strict`: no sort is guessed, neither one that was not recorded nor one without its bytes.
std::string flip_of(CallNodes& calls, std::span<const TensorDiff> tensors, uint32_t i, bool strict);

}  // namespace ttap
