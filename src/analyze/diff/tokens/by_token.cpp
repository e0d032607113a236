#include "analyze/diff/tokens/by_token.h"

#include <fmt/format.h>

#include <algorithm>

namespace ttap {
namespace {

// Whether passes that would be compared by their numbers hold the same tokens.
bool agree_pass_by_pass(const TokenPasses& a, const TokenPasses& b) {
  size_t common = 0;
  for (size_t i = 0; i < a.numbers.size(); ++i) {
    const auto found = std::ranges::find(b.numbers, a.numbers[i]);
    if (found == b.numbers.end()) continue;
    ++common;
    if (!same_rows(a.rows[i], b.rows[static_cast<size_t>(found - b.numbers.begin())])) return false;
  }
  return common > 0;
}

bool says_rows(const Rank& rank) {
  if (rank.passes.empty()) return false;
  for (const PassFile* file : {&rank.passes.front(), &rank.passes.back()}) {
    const auto pass = open_found_pass(*file);
    if (!pass.ok()) return false;
    for (size_t i = 0; i < pass->event_count(); ++i)
      if (pass->event(i).kind == kBatchEvent) return true;
  }
  return false;
}

bool has_rows(const Side& side) {
  for (size_t i = 0; i < side.tensor_count(); ++i)
    if (const TensorRecord record = side.tensor(i); record.has_bytes && record.role != "param") return true;
  return false;
}

Error cannot(std::string_view why, std::string_view hint) {
  return {.code = ErrorCode::kNotFound, .message = std::string(why), .hint = std::string(hint)};
}

}  // namespace

Result<std::optional<ByToken>> open_by_token(const PassPairing& pairing, const DiffOptions& options, Losses& lost_a,
                                             Losses& lost_b) {
  const std::optional<bool> wanted = options.by_token;
  std::optional<ByToken> found;
  if (wanted == false || pairing.processes.size() != 1) return found;
  const auto [rank_a, rank_b] = pairing.processes.front();
  for (const auto& [rank, name] : {std::pair(rank_a, "A"), std::pair(rank_b, "B")}) {
    if (says_rows(*rank)) continue;
    if (!wanted) return found;
    return cannot(fmt::format("{} does not say which tokens its passes computed", name),
                  "record a model of Transformers, vLLM under `ttap run`, or call tap.batch() once per step");
  }
  Losses of_a, of_b;
  TTAP_ASSIGN(TokenPasses a, open_token_passes(*rank_a, of_a));
  TTAP_ASSIGN(TokenPasses b, open_token_passes(*rank_b, of_b));
  if (!wanted && agree_pass_by_pass(a, b)) return found;
  ByToken made{.passes_a = static_cast<uint32_t>(a.numbers.size()),
               .passes_b = static_cast<uint32_t>(b.numbers.size())};
  made.pairs = pair_tokens(a.rows, b.rows, options.last_positions);
  if (made.pairs.a.empty()) {
    if (!wanted && (a.numbers.empty() || b.numbers.empty())) return found;
    return cannot(
        fmt::format("no token was computed by both: A has {} passes with tokens, B {}", made.passes_a, made.passes_b),
        "give both programs the same prompts; --by-pass compares pass by pass");
  }
  made.sides = join_tokens(std::move(a), std::move(b), made.pairs, options.threads);
  for (const auto& [side, name] : {std::pair(made.sides.a.get(), "A"), std::pair(made.sides.b.get(), "B")})
    if (!has_rows(*side))
      return cannot(fmt::format("{} kept no bytes: rows of tokens cannot be taken from fingerprints", name),
                    "record at level full; --by-pass compares pass by pass");
  lost_a += of_a;
  lost_b += of_b;
  found = std::move(made);
  return found;
}

}  // namespace ttap
