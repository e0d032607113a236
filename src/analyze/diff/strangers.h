#pragma once

#include <vector>

#include "analyze/diff/verdict.h"

namespace ttap {

// Parts pairs of ops' values that turn out not to be the same value: they disagree, and yet all that both programs make
// of them agrees. A value that were wrong would be handed on. Each of the two is then what only its side has. Two of
// the same shape that one op made of the same stay a pair, and so does a value that a program ends with.
//
// After the pairs were compared, before find_causes().
void part_strangers(const Side& a, const Side& b, std::vector<TensorDiff>& tensors);

}  // namespace ttap
