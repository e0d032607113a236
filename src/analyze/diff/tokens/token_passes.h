#pragma once

#include <memory>
#include <string>
#include <vector>

#include "analyze/check/losses.h"
#include "analyze/diff/ranks/shards.h"
#include "analyze/diff/sides/pass_pairs.h"
#include "analyze/diff/tokens/token_rows.h"

namespace ttap {

// Passes of one process, or of several ranks put together, and which tokens each computed. Those that do not say, or
// only warm up, are left out.
struct TokenPasses {
  std::vector<std::shared_ptr<const Side>> sides = {};
  std::vector<PassRows> rows = {};                        // of each of them
  std::vector<uint32_t> numbers = {};                     // likewise
  std::vector<std::shared_ptr<const Side>> weights = {};  // passes that hold weights as they were loaded
  std::vector<PassRows> scores = {};                      // tokens whose log-probabilities were recorded
  // Whether the ranks computed the same tokens in each step. If not, they work on different data, and nothing more is
  // read.
  bool ranks_agree = true;
  std::vector<std::string> notes = {};  // steps of which a rank's part is missing
};

// The same of only those processes that say which tokens they computed. Others are the front end of a server, or load
// data.
std::vector<RankGroup> groups_with_tokens(const std::vector<RankGroup>& groups);

// `shards` may be null.
Result<TokenPasses> open_token_passes(const RankGroup& ranks, const ShardRules* shards, Losses& lost);

}  // namespace ttap
