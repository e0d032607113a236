#pragma once

#include "analyze/diff/match/ops/op_pairing.h"

namespace ttap {

// What fused kernels of either side wrote, held against values of the ops that went into them. A kernel also writes
// what no op made, so a buffer belongs to a value only
//   - where their statistics say that they are the same, or
//   - where nothing else is left: the one buffer of its shape that has no counterpart, the one value of its shape that
//     is an end of what was fused, and both go the same way.
// Others are left alone: what is wrong with them shows where something is made of them.
void match_kernels(OpPairing& ops);

}  // namespace ttap
