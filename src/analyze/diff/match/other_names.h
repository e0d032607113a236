#pragma once

#include <vector>

#include "analyze/diff/match/pairing.h"

namespace ttap {

// A module that is known by several names has its tensors once for each. What is matched under one of them is not there
// to be matched under another,
void close_other_names(const Side& a, const Side& b, Pairing& pairing);
// nor is it left over there.
void erase_other_names(const Side& a, const Side& b, std::vector<Match>& matches);

}  // namespace ttap
