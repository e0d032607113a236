#include "analyze/diff/tokens/token_pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace ttap {
namespace {

struct ComputedToken {
  int64_t token = 0;
  TokenPlace place = {};
};
struct Request {
  std::string name = {};
  std::map<int64_t, ComputedToken> tokens = {};  // by position
};

std::vector<Request> requests_of(std::span<const PassRows> passes) {
  std::vector<Request> requests;
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

// What two requests share: positions that both computed, up to the first where the tokens differ.
struct Shared {
  std::vector<int64_t> positions = {};
  std::optional<int64_t> differs_at = {};
};

Shared shared_of(const Request& a, const Request& b) {
  Shared shared;
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

}  // namespace

TokenPairs pair_tokens(std::span<const PassRows> a, std::span<const PassRows> b) {
  const std::vector<Request> requests_a = requests_of(a), requests_b = requests_of(b);
  struct Candidate {
    size_t shared, a, b;
  };
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < requests_a.size(); ++i)
    for (size_t j = 0; j < requests_b.size(); ++j)
      if (const size_t count = shared_of(requests_a[i], requests_b[j]).positions.size(); count > 0)
        candidates.push_back({count, i, j});
  std::ranges::stable_sort(candidates, std::ranges::greater(), &Candidate::shared);
  std::vector<size_t> partner(requests_a.size(), SIZE_MAX);
  std::vector<bool> taken(requests_b.size());
  for (const Candidate& candidate : candidates) {
    if (partner[candidate.a] != SIZE_MAX || taken[candidate.b]) continue;
    partner[candidate.a] = candidate.b;
    taken[candidate.b] = true;
  }

  TokenPairs pairs;
  for (size_t i = 0; i < requests_a.size(); ++i) {
    if (partner[i] == SIZE_MAX) {
      pairs.notes.push_back(fmt::format("request {} of A has no counterpart in B", requests_a[i].name));
      continue;
    }
    const Request &one = requests_a[i], &other = requests_b[partner[i]];
    const Shared shared = shared_of(one, other);
    ++pairs.requests;
    for (const int64_t position : shared.positions) {
      pairs.a.push_back(one.tokens.at(position).place);
      pairs.b.push_back(other.tokens.at(position).place);
    }
    if (shared.differs_at) {
      const int64_t at = *shared.differs_at;
      pairs.notes.push_back(fmt::format("request {}: A's token {} is {}, B's is {}; nothing from there on is compared",
                                        one.name, at, one.tokens.at(at).token, other.tokens.at(at).token));
    } else {
      pairs.only_a += one.tokens.size() - shared.positions.size();
      pairs.only_b += other.tokens.size() - shared.positions.size();
    }
  }
  for (size_t j = 0; j < requests_b.size(); ++j)
    if (!taken[j]) pairs.notes.push_back(fmt::format("request {} of B has no counterpart in A", requests_b[j].name));
  return pairs;
}

}  // namespace ttap
