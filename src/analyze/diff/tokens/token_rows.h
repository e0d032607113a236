#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyze/diff/sides/side.h"

// Which token of which request each row of a pass computed, as tap.batch() or an adapter said.
namespace ttap {

inline constexpr uint32_t kNoRequest = 0xFFFFFFFF;

struct TokenRow {
  uint32_t request = kNoRequest;  // of PassRows::requests; kNoRequest: padding
  int64_t position = 0;           // of the token in its request
  int64_t token = 0;
  bool operator==(const TokenRow&) const = default;
};

struct PassRows {
  std::vector<std::string> requests = {};
  std::vector<TokenRow> rows = {};  // in the order in which tensors hold them
  // Rows by request are a grid of requests × length, shorter ones padded; packed rows are not: 0.
  uint32_t length = 0;
  std::vector<uint32_t> logits = {};  // rows that have logits where not all do
  std::vector<double> logprobs = {};  // of each row's token, NaN where unknown; only of kLogprobsEvent
  bool dummy = false;                 // the pass only warms up
  bool weights = false;               // it holds the weights as they were loaded, and no rows

  uint32_t live_rows() const;  // all but padding at the end
};

// The kinds of events that say which tokens a pass is about: those that it computed, and those whose log-probabilities
// tap.logprobs() recorded.
inline constexpr std::string_view kBatchEvent = "batch", kLogprobsEvent = "logprobs";

// Nothing where the pass does not say. Fails where what it says makes no sense, or cannot be read.
Result<std::optional<PassRows>> read_rows(const Side& side, std::string_view kind = kBatchEvent);

// Whether both hold the same tokens in the same places, whatever the requests are called.
bool same_rows(const PassRows& a, const PassRows& b);

}  // namespace ttap
