#include "analyze/diff/tokens/request_texts.h"

#include <algorithm>
#include <set>

namespace ttap {

std::vector<RequestText> request_texts(std::span<const PassRows> passes) {
  std::vector<RequestText> requests;
  std::map<std::string, size_t> known;
  for (uint32_t pass = 0; pass < passes.size(); ++pass) {
    const PassRows& rows = passes[pass];
    const std::set<uint32_t> logits(rows.logits.begin(), rows.logits.end());
    for (uint32_t row = 0; row < rows.rows.size(); ++row) {
      const TokenRow& at = rows.rows[row];
      if (at.request == kNoRequest) continue;
      const std::string& name = rows.requests[at.request];
      const auto [found, is_new] = known.try_emplace(name, requests.size());
      if (is_new) requests.push_back({.name = name});
      requests[found->second].tokens[at.position] = {at.token, {pass, row, logits.contains(row)}};
    }
  }
  return requests;
}

SharedTokens shared_tokens(const RequestText& a, const RequestText& b) {
  SharedTokens shared;
  auto at_b = b.tokens.begin();
  for (const auto& [position, computed] : a.tokens) {
    while (at_b != b.tokens.end() && at_b->first < position) ++at_b;
    if (at_b == b.tokens.end()) break;
    if (at_b->first != position) continue;
    if (at_b->second.token != computed.token) {
      shared.differs_at = position;
      break;
    }
    shared.positions.push_back(position);
  }
  return shared;
}

std::vector<std::optional<size_t>> match_requests(std::span<const RequestText> a, std::span<const RequestText> b) {
  struct Candidate {
    size_t shared, a, b;
  };
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j < b.size(); ++j)
      if (const size_t count = shared_tokens(a[i], b[j]).positions.size(); count > 0)
        candidates.push_back({count, i, j});
  std::ranges::stable_sort(candidates, std::ranges::greater(), &Candidate::shared);
  std::vector<std::optional<size_t>> partners(a.size());
  std::vector<bool> taken(b.size());
  for (const Candidate& candidate : candidates) {
    if (partners[candidate.a] || taken[candidate.b]) continue;
    partners[candidate.a] = candidate.b;
    taken[candidate.b] = true;
  }
  return partners;
}

}  // namespace ttap
