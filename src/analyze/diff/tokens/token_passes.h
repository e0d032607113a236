#pragma once

#include <memory>
#include <vector>

#include "analyze/check/losses.h"
#include "analyze/diff/tokens/token_rows.h"

namespace ttap {

// Passes of one process, and which tokens each computed. Those that do not say, or only warm up, are left out.
struct TokenPasses {
  std::vector<std::shared_ptr<const Side>> sides = {};
  std::vector<PassRows> rows = {};                        // of each of them
  std::vector<uint32_t> numbers = {};                     // likewise
  std::vector<std::shared_ptr<const Side>> weights = {};  // passes that hold weights as they were loaded
  std::vector<PassRows> scores = {};                      // tokens whose log-probabilities were recorded
};

Result<TokenPasses> open_token_passes(const Rank& rank, Losses& lost);

}  // namespace ttap
