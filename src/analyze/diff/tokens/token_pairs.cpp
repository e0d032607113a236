#include "analyze/diff/tokens/token_pairs.h"

#include <fmt/format.h>

#include <algorithm>

namespace ttap {

TokenPairs pair_tokens(std::span<const PassRows> a, std::span<const PassRows> b,
                       const std::map<std::string, int64_t>& last_positions) {
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
