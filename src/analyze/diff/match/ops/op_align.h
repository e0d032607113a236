#pragma once

#include "analyze/diff/match/ops/side_ops.h"
#include "analyze/diff/match/pairing.h"

namespace ttap {

// Matches the tensors of ops, and of the nodes of graphs, which are ops by what they call. First the ops themselves:
// nodes of the same graph by their names; then by what they were given and by what they made, wherever they
// stand; then, within each module and between those, by the longest common subsequence of operators and shapes. Then
// single values: those with the same bits, those that the same op is given in the same place, the gradients of the same
// parameter, and what a fused kernel or another operator left where the other side has something of the same shape.
// Call numbers do not count, so an op more or less leaves the rest as it is. What has no counterpart is closed in the
// pairing: neither its key nor structure would know better.
//
// `nearness`: ops may also be matched because the statistics of what they made are near. Buffers of fused kernels are
// matched so in any case: nothing else tells which value is which.
//
// Does nothing unless both sides have ops.
void match_ops(const SideOps& a, const SideOps& b, bool nearness, Pairing& pairing);

}  // namespace ttap
