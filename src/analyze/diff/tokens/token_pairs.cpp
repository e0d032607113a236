#include "analyze/diff/tokens/token_pairs.h"

#include <fmt/format.h>

#include <algorithm>

namespace ttap {
namespace {

// The first of the other's tokens that `text` lacks between two of its own, and how many there are.
struct Gap {
  int64_t first = 0;
  uint64_t count = 0;
};
Gap gap_of(const RequestText& text, const RequestText& other) {
  Gap gap;
  for (const auto& [position, computed] : other.tokens) {
    if (position < text.tokens.begin()->first || position > text.tokens.rbegin()->first) continue;
    if (!text.tokens.contains(position) && gap.count++ == 0) gap.first = position;
  }
  return gap;
}

}  // namespace

TokenPairs pair_tokens(std::span<const PassRows> a, std::span<const PassRows> b, const TokenPairOptions& options) {
  const std::map<std::string, int64_t>& last_positions = options.last_positions;
  std::vector<RequestText> requests_a = request_texts(a);
  const std::vector<RequestText> requests_b = request_texts(b);
  const std::vector<std::optional<size_t>> partners = match_requests(requests_a, requests_b);
  TokenPairs pairs;
  for (size_t i = 0; i < requests_a.size(); ++i) {
    RequestText& one = requests_a[i];
    if (!last_positions.empty()) {
      const auto wanted = last_positions.find(one.name);
      if (wanted == last_positions.end()) continue;
      one.tokens.erase(one.tokens.upper_bound(wanted->second), one.tokens.end());
    }
    if (!partners[i]) {
      pairs.notes.push_back(fmt::format("request {} of A has no counterpart in B", one.name));
      continue;
    }
    const RequestText& other = requests_b[*partners[i]];
    const SharedTokens shared = shared_tokens(one, other);
    ++pairs.requests;
    const auto note_gap = [&](std::string_view side, const RequestText& text, const RequestText& other_text) {
      const Gap gap = gap_of(text, other_text);
      if (gap.count == 0) return;
      pairs.gaps += gap.count;
      pairs.notes.push_back(
          fmt::format("request {}: {} did not compute token {}, between others that it did; are its positions right?",
                      one.name, side, gap.first));
    };
    if (options.whole_a) note_gap("A", one, other);
    if (options.whole_b) note_gap("B", other, one);
    for (const int64_t position : shared.positions) {
      pairs.a.push_back(one.tokens.at(position).place);
      pairs.b.push_back(other.tokens.at(position).place);
    }
    if (shared.differs_at) {
      const int64_t at = *shared.differs_at;
      pairs.notes.push_back(fmt::format("request {}: A's token {} is {}, B's is {}; nothing from there on is compared",
                                        one.name, at, one.tokens.at(at).token, other.tokens.at(at).token));
    } else if (last_positions.empty()) {
      pairs.only_a += one.tokens.size() - shared.positions.size();
      pairs.only_b += other.tokens.size() - shared.positions.size();
    }
  }
  if (!last_positions.empty()) return pairs;
  for (size_t j = 0; j < requests_b.size(); ++j)
    if (std::ranges::find(partners, j) == partners.end())
      pairs.notes.push_back(fmt::format("request {} of B has no counterpart in A", requests_b[j].name));
  return pairs;
}

}  // namespace ttap
