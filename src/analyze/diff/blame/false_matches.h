#pragma once

#include <vector>

#include "analyze/diff/match/ops/side_ops.h"
#include "analyze/diff/result/verdict.h"

namespace ttap {

// Undoes false matches between ops' values: the two disagree, and yet everything that both programs compute from them
// agrees, while a wrong value would propagate. Each of the two is then unmatched. Kept as pairs are:
//   - two values of the same shape that the same op computed from the same inputs
//   - a value that a program ends with
//
// After the pairs were compared, before find_causes().
void unmatch_false_matches(const SideOps& a, const SideOps& b, std::vector<TensorDiff>& tensors);

}  // namespace ttap
