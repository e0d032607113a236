#pragma once

#include "analyze/diff/match/pairing.h"
#include "analyze/diff/sides/side.h"

namespace ttap {

// Carries what the values showed of one layer over to the others: where the tensors of `h.0.ln_1` and `L.0.a` were
// matched by their values, and no value speaks against it, those of `h.1.ln_1` and `L.1.a` are matched by name.
void match_by_renaming(const Side& a, const Side& b, const SharedValues& values, Pairing& pairing);

}  // namespace ttap
