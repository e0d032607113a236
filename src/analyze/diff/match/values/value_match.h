#pragma once

#include "analyze/diff/match/pairing.h"
#include "analyze/diff/sides/side.h"

namespace ttap {

// Matches tensors without a partner by what they hold, whatever their names and shapes. Two values are one when
//   - they have the same bits, or
//   - one is the transpose of the other, or
//   - they are near, and each is far nearer to the other than to any other value: by their elements where both have
//     bytes, else by their statistics.
// Of the tensors of one side that hold a value, the first result is that of the call that made it; the others hand it
// on. Tensors that hold it are matched where each side has as many of a role and kind (of a call that computes, that
// hands on what it was given, that has others inside), in their order; else the two that made it. Then results that
// hold the columns of another, in whatever order: queries, keys and values in a fused projection.
//
// Returns which values both sides have, for what is left: no tensor that holds one of them matches a tensor that does
// not.
SharedValues match_by_value(const Side& a, const Side& b, Pairing& pairing);

}  // namespace ttap
