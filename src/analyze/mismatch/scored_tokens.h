#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "analyze/mismatch/logits.h"

// The tokens of which two runs say how likely they are.
namespace ttap {

// What one run says of a token: a log-probability that was recorded, and the logits that it was drawn from.
struct TokenScore {
  double recorded = std::numeric_limits<double>::quiet_NaN();
  std::optional<TokenPlace> logits = {};
};

struct ScoredToken {
  uint32_t request = 0;  // of ScoredTokens::requests
  int64_t position = 0;
  int64_t token = 0;
  TokenScore a = {}, b = {};
};

struct ScoredTokens {
  std::vector<std::string> requests = {};  // as A calls them
  std::vector<ScoredToken> tokens = {};
  std::vector<std::string> notes = {};  // where texts go different ways, requests without a counterpart
};

// One run: its texts, and what it says of their tokens.
struct ScoredRun {
  TokenPasses passes = {};
  std::optional<RunLogits> logits = {};
  std::vector<RequestText> computed = {};  // by passes of the model
  std::vector<RequestText> recorded = {};  // by passes of log-probabilities

  // Those that say how likely tokens are.
  const std::vector<RequestText>& scored() const { return recorded.empty() ? computed : recorded; }
  int64_t largest_token() const;
};
ScoredRun make_scored_run(TokenPasses passes);

// Every token of which both runs say it, request by request. A token that only one of them was given, as the last that
// was drawn, counts for both.
ScoredTokens pair_scores(const ScoredRun& a, const ScoredRun& b);

}  // namespace ttap
