#pragma once

#include "analyze/diff/verdict.h"
#include "ttap/record.h"

namespace ttap {

// Two tensors of which at least one has no bytes, whose hashes do not tell that they are the same. The statistics give
// the least error there can be: when that is out of tolerance the pair has diverged; otherwise it stays inconclusive.
// `measures` then holds these least values: max_abs, mean_abs, rmse, and the counts of NaN and infinity that cannot
// match.
void compare_statistics(const Tolerances& tolerances, const TensorRecord& a, const TensorRecord& b, TensorDiff& tensor);

}  // namespace ttap
