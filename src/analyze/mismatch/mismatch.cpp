#include "analyze/mismatch/mismatch.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <thread>

#include "analyze/diff/sides/pass_pairs.h"
#include "analyze/mismatch/scored_tokens.h"
#include "analyze/mismatch/temperature.h"
#include "analyze/values/real_values.h"

namespace ttap {
namespace {

constexpr size_t kDrawnForTemperature = 64;  // tokens that a temperature is found from

Error cannot_score(std::string_view run, std::string_view what) {
  return {.code = ErrorCode::kNotFound,
          .message = fmt::format("the {} {}", run, what),
          .hint = "record the model's logits at level full, or call tap.logprobs() with its tokens"};
}

Status open_run(const std::vector<RankGroup>& groups, std::string_view name, ScoredRun& run, Losses& lost) {
  const std::vector<RankGroup> found = groups_with_tokens(groups);
  if (found.empty()) return cannot_score(name, "does not say which tokens it computed");
  TTAP_ASSIGN(TokenPasses passes, open_token_passes(found.front(), nullptr, lost));
  if (found.size() > 1 || !passes.ranks_agree)
    return Error{.code = ErrorCode::kUnsupported,
                 .message = fmt::format("the processes of the {} compute different tokens", name),
                 .hint = "--rank 0 takes one of them"};
  run = make_scored_run(std::move(passes));
  if (run.scored().empty()) return cannot_score(name, "does not say which tokens it computed");
  return {};
}

Status find_logits(const std::string& key, std::string_view name, int64_t least_width, ScoredRun& run) {
  run.logits.emplace(run.passes, key, least_width);
  if (!key.empty() && run.logits->empty())
    return Error{.code = ErrorCode::kNotFound,
                 .message = fmt::format("the {} has no result '{}' with a row per token and a column for each of {} "
                                        "tokens",
                                        name, key, least_width),
                 .hint = "`ttap ls RUN` lists the keys"};
  if (run.recorded.empty() && run.logits->empty()) return cannot_score(name, "kept no logits");
  return {};
}

// Works on tokens whose logits lie in one pass of each run, so that only one tensor of each is in memory.
class TokenScorer {
 public:
  TokenScorer(const ScoredRun& a, const ScoredRun& b, const MismatchOptions& options)
      : a_(a), b_(b), options_(options) {}

  Status score(const ScoredTokens& scored, MismatchReport& report) {
    report.tokens.resize(scored.tokens.size());
    kl_.assign(scored.tokens.size(), 0.0);
    std::vector<size_t> order(scored.tokens.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const auto passes = [&](size_t i) {
      const ScoredToken& token = scored.tokens[i];
      const auto pass = [](const std::optional<TokenPlace>& place) { return place ? int64_t{place->pass} : -1; };
      return std::pair(pass(token.b.logits), pass(token.a.logits));
    };
    std::ranges::stable_sort(order, {}, passes);
    for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
      for (end = begin; end < order.size() && passes(order[end]) == passes(order[begin]);) ++end;
      TTAP_TRY(score_together(scored, std::span(order).subspan(begin, end - begin), report));
      if (options_.progress) options_.progress(end, order.size());
    }
    if (a_.recorded.empty() && b_.recorded.empty() && same_width_ && !order.empty())
      report.measures.kl = std::accumulate(kl_.begin(), kl_.end(), 0.0) / static_cast<double>(kl_.size());
    return {};
  }

 private:
  static Status read(const ScoredRun& run, const std::optional<TokenPlace>& place, int64_t& pass,
                     RunLogits::Tensor& tensor) {
    if (!place || pass == place->pass) return {};
    TTAP_ASSIGN(tensor, run.logits->read(place->pass));
    pass = place->pass;
    return {};
  }

  Status score_together(const ScoredTokens& scored, std::span<const size_t> tokens, MismatchReport& report) {
    const ScoredToken& first = scored.tokens[tokens.front()];
    TTAP_TRY(read(a_, first.a.logits, pass_a_, tensor_a_));
    TTAP_TRY(read(b_, first.b.logits, pass_b_, tensor_b_));
    if (first.a.logits && first.b.logits) same_width_ = same_width_ && tensor_a_.width == tensor_b_.width;
    std::atomic<size_t> next = 0;
    const auto work = [&] {
      std::vector<double> row_a, row_b;
      for (size_t i = next++; i < tokens.size(); i = next++) {
        const ScoredToken& token = scored.tokens[tokens[i]];
        TokenMismatch& told = report.tokens[tokens[i]];
        told = {.request = token.request, .position = token.position, .token = token.token};
        told.rollout = log_probability(a_, tensor_a_, token, token.a, row_a);
        told.trainer = log_probability(b_, tensor_b_, token, token.b, row_b);
        if (a_.recorded.empty() && b_.recorded.empty() && same_width_) kl_[tokens[i]] = divergence(row_a, row_b);
      }
    };
    const uint64_t elements = tokens.size() * (tensor_a_.width + tensor_b_.width);
    const unsigned threads = options_.threads != 0 ? options_.threads : std::thread::hardware_concurrency();
    std::vector<std::thread> others;
    for (unsigned i = 1; i < threads && elements > 1'000'000; ++i) others.emplace_back(work);
    work();
    for (std::thread& thread : others) thread.join();
    return {};
  }

  // `row` gets the log-probabilities of the vocabulary where they are computed.
  static double log_probability(const ScoredRun& run, const RunLogits::Tensor& tensor, const ScoredToken& token,
                                const TokenScore& score, std::vector<double>& row) {
    if (!run.recorded.empty()) return score.recorded;
    run.logits->take_row(tensor, *score.logits, row);
    const double sum = log_sum_exp(row);
    for (double& value : row) value -= sum;
    return row[static_cast<size_t>(token.token)];
  }

  static double divergence(const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i)
      if (std::isfinite(a[i])) sum += std::exp(a[i]) * (a[i] - b[i]);
    return sum;
  }

  const ScoredRun &a_, &b_;
  const MismatchOptions& options_;
  int64_t pass_a_ = -1, pass_b_ = -1;
  RunLogits::Tensor tensor_a_, tensor_b_;
  std::vector<double> kl_;
  bool same_width_ = true;
};

MismatchMeasures measure(const std::vector<TokenMismatch>& all, double ratio, std::optional<double> kl) {
  MismatchMeasures found{.kl = kl};
  std::vector<TokenMismatch> tokens;
  for (const TokenMismatch& token : all)
    if (std::isfinite(token.log_ratio())) tokens.push_back(token);
  found.nonfinite = all.size() - tokens.size();
  const auto mean = [&](auto&& value) {
    double sum = 0;
    for (const TokenMismatch& token : tokens) sum += value(token);
    return sum / static_cast<double>(tokens.size());
  };
  const auto largest = [&](auto&& value) {
    double most = 0;
    for (const TokenMismatch& token : tokens) most = std::max(most, value(token));
    return most;
  };
  const auto r = [](const TokenMismatch& token) { return token.log_ratio(); };
  const auto p = [](const TokenMismatch& token) { return std::exp(token.rollout); };
  const auto q = [](const TokenMismatch& token) { return std::exp(token.trainer); };
  const auto abs_r = [&](const TokenMismatch& token) { return std::abs(r(token)); };
  const auto change = [&](const TokenMismatch& token) { return std::abs(p(token) - q(token)); };
  found.mean_abs_logprob = mean(abs_r);
  found.max_abs_logprob = largest(abs_r);
  found.mean_abs_probability = mean(change);
  found.max_abs_probability = largest(change);
  found.std_abs_probability = std::sqrt(
      mean([&](const TokenMismatch& token) { return std::pow(change(token) - found.mean_abs_probability, 2); }));
  const double mean_p = mean(p), mean_q = mean(q);
  const auto covariance = [&](auto&& one, double mean_one, auto&& other, double mean_other) {
    return mean([&](const TokenMismatch& token) { return (one(token) - mean_one) * (other(token) - mean_other); });
  };
  found.pearson =
      covariance(p, mean_p, q, mean_q) / std::sqrt(covariance(p, mean_p, p, mean_p) * covariance(q, mean_q, q, mean_q));
  found.k1 = -mean(r);
  found.k3 = mean([&](const TokenMismatch& token) { return std::expm1(r(token)) - r(token); });
  found.beyond = static_cast<uint64_t>(
      std::ranges::count_if(tokens, [&](const TokenMismatch& token) { return abs_r(token) > std::log(ratio); }));
  found.rollout_perplexity = std::exp(-mean([](const TokenMismatch& token) { return token.rollout; }));
  found.trainer_perplexity = std::exp(-mean([](const TokenMismatch& token) { return token.trainer; }));
  return found;
}

// Tokens with the logits of `from` and the log-probabilities of A or B, evenly over all that have both.
Result<std::vector<DrawnToken>> drawn_tokens(const ScoredTokens& scored, const MismatchReport& report,
                                             const ScoredRun& from, bool from_b, bool of_trainer) {
  std::vector<size_t> usable;
  for (size_t i = 0; i < scored.tokens.size(); ++i)
    if ((from_b ? scored.tokens[i].b : scored.tokens[i].a).logits) usable.push_back(i);
  std::vector<DrawnToken> drawn;
  const size_t step = std::max<size_t>(1, usable.size() / kDrawnForTemperature);
  for (size_t k = 0; k < usable.size() && drawn.size() < kDrawnForTemperature; k += step) {
    const ScoredToken& token = scored.tokens[usable[k]];
    const TokenPlace place = *(from_b ? token.b : token.a).logits;
    TTAP_ASSIGN(const RunLogits::Tensor tensor, from.logits->read(place.pass));
    const TokenMismatch& told = report.tokens[usable[k]];
    DrawnToken& added = drawn.emplace_back();
    from.logits->take_row(tensor, place, added.logits);
    added.token = token.token;
    added.logprob = of_trainer ? told.trainer : told.rollout;
    if (!std::isfinite(added.logprob)) drawn.pop_back();
  }
  return drawn;
}

// What a run recorded is held against its own logits; else what was computed from logits against the other's.
Status find_temperatures(const ScoredTokens& scored, const ScoredRun& rollout, const ScoredRun& trainer,
                         MismatchReport& report) {
  const auto look = [&](bool of_trainer, bool own_logits) -> Status {
    const bool from_b = of_trainer == own_logits;
    TTAP_ASSIGN(const std::vector<DrawnToken> drawn,
                drawn_tokens(scored, report, from_b ? trainer : rollout, from_b, of_trainer));
    if (const std::optional<double> found = find_temperature(drawn))
      report.temperatures.push_back({of_trainer, own_logits, *found});
    return {};
  };
  if (!rollout.recorded.empty() && !rollout.logits->empty()) TTAP_TRY(look(false, true));
  if (!trainer.recorded.empty() && !trainer.logits->empty()) TTAP_TRY(look(true, true));
  if (!report.temperatures.empty()) return {};
  if (!rollout.logits->empty()) return look(true, false);
  if (!trainer.logits->empty()) return look(false, false);
  return {};
}

std::optional<OtherDtypes> find_other_dtypes(const DiffReport& report) {
  OtherDtypes found;
  for (const PassDiff& pass : report.passes)
    for (const TensorDiff& tensor : pass.tensors) {
      if (tensor.match.a == kNoTensor || tensor.match.b == kNoTensor) continue;
      const TensorRecord a = pass.a->tensor(tensor.match.a), b = pass.b->tensor(tensor.match.b);
      if (a.role != "out" || !is_real(a.dtype) || !is_real(b.dtype)) continue;
      ++found.of;
      if (dtype_of(a) == dtype_of(b)) continue;
      if (found.count++ > 0) continue;
      found.key = key_of(pass, tensor);
      found.trainer = dtype_of(a);
      found.rollout = dtype_of(b);
    }
  if (found.count == 0) return std::nullopt;
  return found;
}

// Compares the runs for the requests of the worst tokens, up to the tokens before these: what follows has no part in
// it.
void compare_runs(const ScoredTokens& scored, const ScoredRun& rollout, const ScoredRun& trainer,
                  const MismatchOptions& options, MismatchReport& report) {
  for (const auto& [run, name] : {std::pair(&rollout, "rollout"), std::pair(&trainer, "trainer")})
    if (run->computed.empty()) {
      report.not_compared = fmt::format("the {} holds no results of a model, only log-probabilities", name);
      return;
    }
  DiffOptions wanted{.ranks = options.rank, .by_token = true, .threads = options.threads};
  if (const size_t colon = options.rank.find(':'); colon != std::string::npos)
    wanted.ranks = options.rank.substr(colon + 1) + ":" + options.rank.substr(0, colon);
  for (const uint32_t index : report.worst) {
    const ScoredToken& token = scored.tokens[index];
    if (!token.b.logits) continue;
    const PassRows& rows = trainer.passes.rows[token.b.logits->pass];
    int64_t& last = wanted.last_positions[rows.requests[rows.rows[token.b.logits->row].request]];
    last = std::max(last, token.position - 1);
  }
  Result<DiffReport> compared = diff(report.trainer, report.rollout, wanted);
  if (!compared.ok()) {
    report.not_compared = compared.error().message;
    return;
  }
  report.dtypes = find_other_dtypes(*compared);
  report.diff = std::make_unique<DiffReport>(std::move(*compared));
}

}  // namespace

std::string_view to_string(MismatchLevel level) {
  switch (level) {
    case MismatchLevel::kNormal: return "normal";
    case MismatchLevel::kNoticeable: return "noticeable";
    case MismatchLevel::kFaulty: return "faulty";
  }
  return "";
}

MismatchLevel MismatchReport::level() const {
  const bool diverged = diff && diff->verdict == Verdict::kDiverged;
  if (measures.mean_abs_probability >= kFaultyProbabilities || measures.nonfinite > 0 || !temperatures.empty() ||
      diverged)
    return MismatchLevel::kFaulty;
  return measures.mean_abs_probability >= kNormalProbabilities ? MismatchLevel::kNoticeable : MismatchLevel::kNormal;
}

Result<MismatchReport> find_mismatch(const std::string& rollout, const std::string& trainer,
                                     const MismatchOptions& options) {
  TTAP_ASSIGN(const Run run_a, Run::open(rollout));
  TTAP_ASSIGN(const Run run_b, Run::open(trainer));
  TTAP_ASSIGN(const PassPairing pairing, pair_passes(run_a, run_b, "", options.rank, false));
  MismatchReport report{.rollout = rollout, .trainer = trainer, .ratio = options.ratio};
  Losses lost;
  ScoredRun a, b;
  TTAP_TRY(open_run(pairing.groups_a, "rollout", a, lost));
  TTAP_TRY(open_run(pairing.groups_b, "trainer", b, lost));
  const int64_t least_width = std::max(a.largest_token(), b.largest_token()) + 1;
  TTAP_TRY(find_logits(options.rollout_logits, "rollout", least_width, a));
  TTAP_TRY(find_logits(options.trainer_logits, "trainer", least_width, b));
  ScoredTokens scored = pair_scores(a, b);
  report.requests = scored.requests;
  report.notes = std::move(scored.notes);
  if (lost.any()) report.notes.emplace_back("tensors or passes were lost while recording; `ttap ls` says which");
  if (scored.tokens.empty())
    return Error{.code = ErrorCode::kNotFound,
                 .message = "there is no token of which both runs say how likely it is",
                 .hint = "let the trainer compute the texts that the rollout has generated"};
  TTAP_TRY(TokenScorer(a, b, options).score(scored, report));
  for (auto [source, run] : {std::pair(&report.from_rollout, &a), std::pair(&report.from_trainer, &b)})
    if (run->recorded.empty()) *source = {run->logits->key(), run->logits->dtype()};
  report.measures = measure(report.tokens, options.ratio, report.measures.kl);
  report.worst.resize(report.tokens.size());
  std::iota(report.worst.begin(), report.worst.end(), 0U);
  std::ranges::stable_sort(report.worst, std::ranges::greater(), [&](uint32_t i) {
    const double size = std::abs(report.tokens[i].log_ratio());
    return std::isfinite(size) ? size : std::numeric_limits<double>::infinity();
  });
  report.worst.resize(std::min(report.worst.size(), options.worst));
  TTAP_TRY(find_temperatures(scored, a, b, report));
  if (options.cause) compare_runs(scored, a, b, options, report);
  return report;
}

}  // namespace ttap
