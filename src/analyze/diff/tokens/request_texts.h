#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analyze/diff/tokens/token_rows.h"

// The requests of a run: what their texts are, and which of another run is the same.
namespace ttap {

// Where a token was computed.
struct TokenPlace {
  uint32_t pass = 0;  // of the passes given
  uint32_t row = 0;
  bool has_logits = false;
};

struct ComputedToken {
  int64_t token = 0;
  TokenPlace place = {};
};

struct RequestText {
  std::string name = {};
  std::map<int64_t, ComputedToken> tokens = {};  // by position
};

// In the order in which they begin. A position that was computed twice counts as it was computed last: what is
// speculated and rejected comes again.
std::vector<RequestText> request_texts(std::span<const PassRows> passes);

// What two requests share: positions that both computed, up to the first where the tokens differ.
struct SharedTokens {
  std::vector<int64_t> positions = {};
  std::optional<int64_t> differs_at = {};
};
SharedTokens shared_tokens(const RequestText& a, const RequestText& b);

// For each request of A the one of B with which it shares most tokens from the beginning on, whatever they are called.
std::vector<std::optional<size_t>> match_requests(std::span<const RequestText> a, std::span<const RequestText> b);

}  // namespace ttap
