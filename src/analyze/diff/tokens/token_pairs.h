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
  uint64_t gaps = 0;                    // of these, tokens between others that this side did compute
  std::vector<std::string> notes = {};  // where texts go different ways, requests without a counterpart
};

struct TokenPairOptions {
  std::map<std::string, int64_t> last_positions = {};  // only these requests of A, each up to its position
  // Whether all steps of a side were recorded: then it has no gaps but those that it made.
  bool whole_a = false, whole_b = false;
};

// Where tokens of matched requests differ, the texts have parted: nothing behind that is compared.
TokenPairs pair_tokens(std::span<const PassRows> a, std::span<const PassRows> b, const TokenPairOptions& options = {});

}  // namespace ttap
