#include "analyze/mismatch/scored_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ttap {
namespace {

// For each text that scores tokens, the one whose logits these tokens were drawn from.
std::vector<const RequestText*> computed_texts(const ScoredRun& run) {
  const std::vector<RequestText>& scored = run.scored();
  std::vector<const RequestText*> found(scored.size());
  const std::vector<std::optional<size_t>> partners = match_requests(scored, run.computed);
  for (size_t i = 0; i < scored.size(); ++i)
    found[i] = run.recorded.empty() ? &scored[i] : partners[i] ? &run.computed[*partners[i]] : nullptr;
  return found;
}

// What a run says of the token at a position of a text; `computed` may be null.
TokenScore score_at(const ScoredRun& run, const RequestText& text, const RequestText* computed, int64_t position) {
  TokenScore score;
  if (!run.recorded.empty())
    if (const auto at = text.tokens.find(position); at != text.tokens.end())
      score.recorded = run.passes.scores[at->second.place.pass].logprobs[at->second.place.row];
  if (computed == nullptr) return score;
  if (const auto before = computed->tokens.find(position - 1);
      before != computed->tokens.end() && run.logits->has(before->second.place))
    score.logits = before->second.place;
  return score;
}

bool is_known(const ScoredRun& run, const TokenScore& score) {
  return run.recorded.empty() ? score.logits.has_value() : !std::isnan(score.recorded);
}

}  // namespace

int64_t ScoredRun::largest_token() const {
  int64_t largest = 0;
  for (const std::vector<RequestText>* texts : {&computed, &recorded})
    for (const RequestText& text : *texts)
      for (const auto& [position, at] : text.tokens) largest = std::max(largest, at.token);
  return largest;
}

ScoredRun make_scored_run(TokenPasses passes) {
  ScoredRun run{.passes = std::move(passes)};
  run.computed = request_texts(run.passes.rows);
  run.recorded = request_texts(run.passes.scores);
  return run;
}

ScoredTokens pair_scores(const ScoredRun& a, const ScoredRun& b) {
  ScoredTokens found;
  const std::vector<RequestText>&texts_a = a.scored(), &texts_b = b.scored();
  const std::vector<const RequestText*> computed_a = computed_texts(a), computed_b = computed_texts(b);
  const std::vector<std::optional<size_t>> partners = match_requests(texts_a, texts_b);
  for (size_t i = 0; i < texts_a.size(); ++i) {
    const RequestText& text_a = texts_a[i];
    const auto request = static_cast<uint32_t>(found.requests.size());
    found.requests.push_back(text_a.name);
    if (!partners[i]) {
      found.notes.push_back(fmt::format("request {} has no counterpart in the other run", text_a.name));
      continue;
    }
    const RequestText& text_b = texts_b[*partners[i]];
    const SharedTokens shared = shared_tokens(text_a, text_b);
    if (shared.differs_at)
      found.notes.push_back(
          fmt::format("request {}: token {} is {} in one run and {} in the other; nothing from there "
                      "on is compared",
                      text_a.name, *shared.differs_at, text_a.tokens.at(*shared.differs_at).token,
                      text_b.tokens.at(*shared.differs_at).token));
    std::map<int64_t, int64_t> tokens;  // of either, by position
    for (const RequestText* text : {&text_b, &text_a})
      for (const auto& [position, computed] : text->tokens) tokens[position] = computed.token;
    for (const auto& [position, token] : tokens) {
      if (shared.differs_at && position >= *shared.differs_at) break;
      ScoredToken scored{.request = request, .position = position, .token = token};
      scored.a = score_at(a, text_a, computed_a[i], position);
      scored.b = score_at(b, text_b, computed_b[*partners[i]], position);
      if (is_known(a, scored.a) && is_known(b, scored.b)) found.tokens.push_back(scored);
    }
  }
  return found;
}

}  // namespace ttap
