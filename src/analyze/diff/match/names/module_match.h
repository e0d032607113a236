#pragma once

#include "analyze/diff/match/pairing.h"
#include "analyze/diff/sides/side.h"

namespace ttap {

// Where one side recorded modules and the other ops, or nodes of graphs, and no modules: what a module returned is what
// the last op inside it made, of the same shape; one with the same bits before any other. Ops that stand for no module
// are then of one side only by nature, and closed in the pairing.
//
// Where both have ops, and only one says what modules returned, as a graph does, that is compared as the values of
// nodes.
void match_modules_with_ops(const Side& a, const Side& b, Pairing& pairing);

}  // namespace ttap
