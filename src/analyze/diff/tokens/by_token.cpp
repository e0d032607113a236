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

// Not where only some steps were to be recorded.
bool has_all_passes(const Rank& rank) {
  for (size_t i = 1; i < rank.passes.size(); ++i)
    if (rank.passes[i].number != rank.passes[i - 1].number + 1) return false;
  return true;
}

// Leaves the pairs of passes that hold the same tokens in the same rows; false, and all of them, where there is none.
bool keep_same_rows(const TokenPasses& a, const TokenPasses& b, PassPairing& pairing) {
  const auto rows_of = [](const TokenPasses& passes, uint32_t number) -> const PassRows* {
    const auto found = std::ranges::find(passes.numbers, number);
    return found == passes.numbers.end() ? nullptr : &passes.rows[static_cast<size_t>(found - passes.numbers.begin())];
  };
  const auto have_same = [&](const PassPair& pair) {
    const PassRows* rows_a = rows_of(a, pair.a.front().second->number);
    const PassRows* rows_b = rows_of(b, pair.b.front().second->number);
    return rows_a == nullptr || rows_b == nullptr ? rows_a == rows_b : same_rows(*rows_a, *rows_b);
  };
  if (std::ranges::none_of(pairing.pairs, have_same)) return false;
  std::string others;
  for (const PassPair& pair : pairing.pairs)
    if (!have_same(pair)) others += fmt::format("{}{}", others.empty() ? "" : ", ", pair.a.front().second->number);
  pairing.warnings.push_back(fmt::format(
      "not compared: passes {}, which hold other tokens in A than in B; rows of tokens cannot be taken from "
      "fingerprints (--level full)",
      others));
  std::erase_if(pairing.pairs, [&](const PassPair& pair) { return !have_same(pair); });
  return true;
}

bool has_rows(const Side& side) {
  for (size_t i = 0; i < side.tensor_count(); ++i)
    if (const TensorRecord record = side.tensor(i); record.has_bytes && record.role != "param") return true;
  return false;
}

Error cannot(std::string_view why, std::string_view hint) {
  return {.code = ErrorCode::kNotFound, .message = std::string(why), .hint = std::string(hint)};
}

Error works_on_different_data(std::string_view name) {
  return cannot(fmt::format("the processes of {} compute different tokens", name), "--rank 0 takes one of them");
}

}  // namespace

Result<std::optional<ByToken>> open_by_token(PassPairing& pairing, const ShardRules* shards, const DiffOptions& options,
                                             Losses& lost_a, Losses& lost_b) {
  const std::optional<bool> wanted = options.by_token;
  std::optional<ByToken> found;
  if (wanted == false) return found;
  const auto groups_a = groups_with_tokens(pairing.groups_a), groups_b = groups_with_tokens(pairing.groups_b);
  for (const auto& [groups, name] : {std::pair(&groups_a, "A"), std::pair(&groups_b, "B")}) {
    if (groups->size() == 1) continue;
    if (!wanted) return found;
    if (groups->size() > 1) return works_on_different_data(name);
    return cannot(fmt::format("{} does not say which tokens its passes computed", name),
                  "record a model of Transformers, vLLM under `ttap run`, or call tap.batch() once per step");
  }
  Losses of_a, of_b;
  auto opened_a = open_token_passes(groups_a.front(), shards, of_a);
  auto opened_b = open_token_passes(groups_b.front(), shards, of_b);
  for (const auto* opened : {&opened_a, &opened_b}) {
    if (opened->ok()) continue;
    if (wanted) return opened->error();
    pairing.warnings.push_back(fmt::format("compared pass by pass: {}", opened->error().message));
    return found;
  }
  const TokenPasses &a = *opened_a, &b = *opened_b;
  for (const auto& [passes, name] : {std::pair(&a, "A"), std::pair(&b, "B")}) {
    if (passes->ranks_agree) continue;
    if (!wanted) return found;
    return works_on_different_data(name);
  }
  if (!wanted && agree_pass_by_pass(a, b)) return found;
  ByToken made{.passes_a = static_cast<uint32_t>(a.numbers.size()),
               .passes_b = static_cast<uint32_t>(b.numbers.size())};
  made.pairs = pair_tokens(a.rows, b.rows,
                           {.last_positions = options.last_positions,
                            .whole_a = options.last_positions.empty() && has_all_passes(*groups_a.front().front()),
                            .whole_b = options.last_positions.empty() && has_all_passes(*groups_b.front().front())});
  if (made.pairs.a.empty()) {
    if (!wanted && (a.numbers.empty() || b.numbers.empty())) return found;
    return cannot(
        fmt::format("no token was computed by both: A has {} passes with tokens, B {}", made.passes_a, made.passes_b),
        "give both programs the same prompts; --by-pass compares pass by pass");
  }
  for (const auto& [passes, name] : {std::pair(&a, "A"), std::pair(&b, "B")})
    for (const std::string& note : passes->notes) made.pairs.notes.push_back(fmt::format("{}: {}", name, note));
  made.sides = join_tokens(a, b, made.pairs, options.threads);
  for (const auto& [side, name] : {std::pair(made.sides.a.get(), "A"), std::pair(made.sides.b.get(), "B")})
    if (!has_rows(*side)) {
      if (!wanted && keep_same_rows(a, b, pairing)) return found;
      return cannot(fmt::format("{} kept no bytes: rows of tokens cannot be taken from fingerprints", name),
                    "record at level full; --by-pass compares pass by pass");
    }
  lost_a += of_a;
  lost_b += of_b;
  found = std::move(made);
  return found;
}

}  // namespace ttap
