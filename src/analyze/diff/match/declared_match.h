#pragma once

#include "analyze/diff/match/pairing.h"
#include "analyze/diff/sides/side.h"

namespace ttap {

// Matches results of fused modules as the recording of their side declares (ModuleFacts):
//   - parts: the query of one side is the first columns of the fused projection of the other;
//   - product: a gate's activation times another projection is what a fused activation gives;
//   - sums: a layer's hidden state and its residual, which it returns apart, are together what another layer returns;
//     sums_inputs: likewise what it is given.
//   - times: an embedding that is scaled after its module, and in it on the other side.
// What these modules are given is matched with what those are given in their place.
void match_declared(const Side& a, const Side& b, Pairing& pairing);

}  // namespace ttap
