#pragma once

#include <span>

#include "analyze/diff/result/verdict.h"
#include "analyze/diff/sides/side.h"

namespace ttap {

// Two modules of different classes may leave a constant factor to different places: an embedding that is scaled inside
// its module or after it. A result that diverged is within tolerance, with a note, where
//   - the classes of the two modules differ,
//   - it is the other one times one factor, but for rounding, and
//   - the next result that was compared agrees: the factor was made up for.
void accept_scaled_elsewhere(const Side& a, const Side& b, std::span<TensorDiff> tensors);

}  // namespace ttap
