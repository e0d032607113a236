#pragma once

#include <memory>

#include "analyze/diff/tokens/token_pairs.h"
#include "analyze/diff/tokens/token_passes.h"

namespace ttap {

// Both sides as though each had computed, in one pass, the tokens that both have: every tensor is a matrix of a row per
// token, in the order of `pairs`. Parameters are as they are; what holds no rows is left out.
struct TokenSides {
  std::shared_ptr<const Side> a, b;
  uint64_t left_out_a = 0, left_out_b = 0;  // tensors that hold no rows, or not those of all tokens
};
// `threads`: 0 for one per core.
TokenSides join_tokens(TokenPasses a, TokenPasses b, const TokenPairs& pairs, unsigned threads);

}  // namespace ttap
