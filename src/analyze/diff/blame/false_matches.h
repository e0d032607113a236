#pragma once

#include <vector>

#include "analyze/diff/match/ops/side_ops.h"
#include "analyze/diff/result/verdict.h"

namespace ttap {

// Undoes false matches between ops' values: the two disagree, and yet everything that both programs compute from them
// agrees, while a wrong value would propagate. Each of the two is then unmatched. Kept as pairs are:
//   - two values of the same shape that the same op computed from the same inputs
//   - a value that a program ends with, unless a module returned it and both sides agree there
//
// After the pairs were compared, before find_causes().
void unmatch_false_matches(const SideOps& a, const SideOps& b, std::vector<TensorDiff>& tensors);

// Undoes matches by structure that are less sure than kCertain and disagree: a guess makes no divergence. Returns those
// after which nothing agrees, in their order: there may be a divergence behind them. One with agreement after it was no
// pair, or did no harm.
std::vector<Match> unmatch_guesses(std::vector<TensorDiff>& tensors);
inline constexpr float kCertain = 0.7F;

}  // namespace ttap
