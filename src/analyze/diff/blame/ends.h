#pragma once

#include <span>

#include "analyze/diff/match/ops/side_ops.h"
#include "analyze/diff/result/verdict.h"

// Where one program stops and the other goes on. What only one side has is no divergence while something after it
// agrees; at the end of a program nothing comes after it.
namespace ttap {

// For traces of operators in which nothing differs, after find_causes(). A call ends a program when nothing but views
// and copies uses what it made. Where such a call of one side is made, by calls that the other side has not, from a
// value that both have and that the other side ends with, the first of those calls is marked as what introduced the
// difference, and `reason` names both ends; likewise where all that the other side makes of that value is alone too. So
// is a call that writes to a value at last, which the other side leaves as it is, whatever else that made of it.
//
// What depends on no argument, draws random numbers, or makes no numbers with a fraction (argmax) ends nothing, nor
// does what the other side has elsewhere by bits or statistics. Fused kernels keep other values than operators do:
// where either side has one, and of graphs, nothing is said.
void find_ends(const SideOps& a, const SideOps& b, std::span<TensorDiff> tensors);

}  // namespace ttap
