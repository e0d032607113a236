#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "analyze/diff/tokens/token_rows.h"

namespace ttap {

// Where a token was computed.
struct TokenPlace {
  uint32_t pass = 0;  // of the passes given
  uint32_t row = 0;
  bool has_logits = false;
};

// The tokens that both sides computed, request by request in the order of A, then by position.
struct TokenPairs {
  std::vector<TokenPlace> a = {}, b = {};  // of one length
  uint32_t requests = 0;
  uint64_t only_a = 0, only_b = 0;      // tokens of matched requests that the other side did not compute
  std::vector<std::string> notes = {};  // where texts go different ways, requests without a counterpart
};

// A request of A is that of B with which it shares most tokens from the beginning on, whatever they are called. A
// position that was computed twice counts as it was computed last: what is speculated and rejected comes again. Where
// tokens differ, the texts have parted: nothing behind that is compared.
TokenPairs pair_tokens(std::span<const PassRows> a, std::span<const PassRows> b);

}  // namespace ttap
