#pragma once

#include <optional>

#include "analyze/check/losses.h"
#include "analyze/diff/sides/pass_pairs.h"
#include "analyze/diff/tokens/token_side.h"
#include "ttap/diff.h"

namespace ttap {

// Two runs whose passes hold different tokens, or the same in other rows, put together token by token.
struct ByToken {
  TokenSides sides = {};
  TokenPairs pairs = {};
  uint32_t passes_a = 0, passes_b = 0;  // that say which tokens they computed
};

// options.by_token: whether to; not set: where both runs say which tokens their passes computed, and two passes that
// are paired hold other ones. Fails where it is asked for and cannot be done: a run does not say, or they have no token
// in common. Ranks of one run that compute the same tokens are put together, by `shards` (may be null) or as they
// declare. Of runs without bytes, whose rows cannot be taken, only the pairs of passes that hold the same tokens are
// left in `pairing`.
Result<std::optional<ByToken>> open_by_token(PassPairing& pairing, const ShardRules* shards, const DiffOptions& options,
                                             Losses& lost_a, Losses& lost_b);

}  // namespace ttap
