#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "analyze/diff/tokens/request_texts.h"

namespace ttap {

// The tokens that both sides computed, request by request in the order of A, then by position.
struct TokenPairs {
  std::vector<TokenPlace> a = {}, b = {};  // of one length
  uint32_t requests = 0;
  uint64_t only_a = 0, only_b = 0;      // tokens of matched requests that the other side did not compute
  std::vector<std::string> notes = {};  // where texts go different ways, requests without a counterpart
};

// Where tokens of matched requests differ, the texts have parted: nothing behind that is compared. `last_positions`:
// only these requests of A, each up to its position; empty for all.
TokenPairs pair_tokens(std::span<const PassRows> a, std::span<const PassRows> b,
                       const std::map<std::string, int64_t>& last_positions = {});

}  // namespace ttap
