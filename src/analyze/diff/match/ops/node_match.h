#pragma once

#include "analyze/diff/match/ops/op_pairing.h"

namespace ttap {

// Nodes of graphs that both sides executed: a graph's id stands for its structure, so its nodes have the same names.
// The first execution of one side is the first of the other, and so on.
void match_nodes_of_equal_graphs(OpPairing& ops);

}  // namespace ttap
