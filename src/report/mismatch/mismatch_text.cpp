#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "report/diff/diff_report.h"
#include "report/mismatch/mismatch_report.h"
#include "report/text/bar.h"
#include "report/text/table.h"
#include "report/text/text.h"

namespace ttap {
namespace {

constexpr size_t kFactColumns = 18;

Style style_of(MismatchLevel level) {
  return level == MismatchLevel::kNormal   ? Style::kGreen
         : level == MismatchLevel::kFaulty ? Style::kRed
                                           : Style::kYellow;
}

std::string source_text(const LogprobSource& source) {
  return source.logits.empty()
             ? "as tap.logprobs() recorded them"
             : fmt::format("from the logits {} ({})", printable(source.logits), dtype_name(source.dtype));
}

void draw_measures(const MismatchReport& report, Output& out) {
  const MismatchMeasures& found = report.measures;
  const auto fact = [&](std::string_view name, const std::string& text) { write_fact(out, kFactColumns, name, text); };
  fact("change of p",
       fmt::format("mean {:.4g}, max {:.4g}, standard deviation {:.4g}, correlation {:.6f}", found.mean_abs_probability,
                   found.max_abs_probability, found.std_abs_probability, found.pearson));
  fact("change of log p", fmt::format("mean {:.4g}, max {:.4g}", found.mean_abs_logprob, found.max_abs_logprob));
  fact("KL", fmt::format("k1 {:.4g}, k3 {:.4g}{}", found.k1, found.k3,
                         found.kl ? fmt::format(", over the vocabulary {:.4g}", *found.kl) : ""));
  fact(fmt::format("ratio beyond {:g}", report.ratio),
       fmt::format("{} of {} ({})", count_text(found.beyond, "token", "tokens"), report.tokens.size(),
                   share_text(found.beyond, report.tokens.size())));
  fact("perplexity", fmt::format("rollout {:.4g}, trainer {:.4g}", found.rollout_perplexity, found.trainer_perplexity));
  if (found.nonfinite > 0) fact("NaN or Inf", count_text(found.nonfinite, "token", "tokens"));
  fact("rollout", source_text(report.from_rollout));
  fact("trainer", source_text(report.from_trainer));
}

// How many tokens have a |Δ log p| of which decade.
void draw_histogram(const MismatchReport& report, Output& out) {
  constexpr std::array<std::string_view, 8> kNames = {"below 1e-6", "below 1e-5", "below 1e-4", "below 1e-3",
                                                      "below 0.01", "below 0.1",  "below 1",    "1 and more"};
  std::array<uint64_t, kNames.size()> counts = {};
  for (const TokenMismatch& token : report.tokens) {
    const double size = std::abs(token.log_ratio());
    size_t bin = 0;
    while (bin + 1 < kNames.size() && !(size < std::pow(10.0, static_cast<double>(bin) - 6))) ++bin;
    ++counts[bin];
  }
  const uint64_t most = *std::ranges::max_element(counts);
  out.print("\nchange of log p, of {}\n", count_text(report.tokens.size(), "token", "tokens"));
  for (size_t bin = 0; bin < kNames.size(); ++bin)
    out.print("  {:<12}{:>8}  {}\n", kNames[bin], counts[bin],
              bar(static_cast<double>(counts[bin]) / static_cast<double>(most), 40, out.terminal().unicode));
}

void draw_worst(const MismatchReport& report, Output& out) {
  if (report.worst.empty()) return;
  out.write("\nworst tokens\n");
  Table table({{"request", Table::Align::kLeft, 0, true},
               {"position", Table::Align::kRight},
               {"token", Table::Align::kRight},
               {"p rollout", Table::Align::kRight},
               {"p trainer", Table::Align::kRight},
               {"change of log p", Table::Align::kRight}});
  for (const uint32_t index : report.worst) {
    const TokenMismatch& token = report.tokens[index];
    table.add(printable(report.requests[token.request]));
    table.add(fmt::format("{}", token.position));
    table.add(fmt::format("{}", token.token));
    table.add(fmt::format("{:.4g}", std::exp(token.rollout)));
    table.add(fmt::format("{:.4g}", std::exp(token.trainer)));
    table.add(fmt::format("{:+.4g}", token.log_ratio()));
  }
  table.draw(out, 2);
}

}  // namespace

std::string mismatch_sentence(const MismatchReport& report) {
  const uint32_t requests = [&] {
    std::vector<bool> seen(report.requests.size());
    for (const TokenMismatch& token : report.tokens) seen[token.request] = true;
    return static_cast<uint32_t>(std::ranges::count(seen, true));
  }();
  const double mean = report.measures.mean_abs_probability;
  const bool by_cause = report.level() == MismatchLevel::kFaulty && mean < kFaultyProbabilities;
  return fmt::format(
      "{}: {}probabilities differ by {:.3g} in the mean, over {} of {} (below {} is normal, beyond {} "
      "faulty)",
      to_string(report.level()), by_cause ? "there is a cause, though " : "", mean,
      count_text(report.tokens.size(), "token", "tokens"), count_text(requests, "request", "requests"),
      kNormalProbabilities, kFaultyProbabilities);
}

std::vector<std::string> mismatch_causes(const MismatchReport& report) {
  std::vector<std::string> causes;
  for (const OtherTemperature& found : report.temperatures) {
    const std::string_view whose = found.of_trainer ? "trainer" : "rollout";
    const std::string_view other = found.of_trainer ? "rollout" : "trainer";
    causes.push_back(fmt::format("temperature: the {}'s log-probabilities are those of {} logits at temperature {:.3g}",
                                 whose, found.own_logits ? "its own" : fmt::format("the {}'s", other),
                                 found.temperature));
  }
  if (report.diff && report.diff->verdict == Verdict::kDiverged) causes.push_back(verdict_sentence(*report.diff));
  if (report.dtypes)
    causes.push_back(
        fmt::format("dtype: {} is {} in the rollout and {} in the trainer{}", printable(report.dtypes->key),
                    dtype_name(report.dtypes->rollout), dtype_name(report.dtypes->trainer),
                    report.dtypes->count > 1
                        ? fmt::format(", and {} more of {} results", report.dtypes->count - 1, report.dtypes->of)
                        : ""));
  if (causes.empty() && report.diff && report.diff->verdict != Verdict::kIdentical)
    causes.push_back(verdict_sentence(*report.diff));
  return causes;
}

void draw_mismatch(const MismatchReport& report, Output& out) {
  const std::string sentence = mismatch_sentence(report);
  const size_t colon = sentence.find(':');
  out.write(style_of(report.level()), sentence.substr(0, colon));
  out.print("{}\n", sentence.substr(colon));
  for (const std::string& cause : mismatch_causes(report)) write_fact(out, kFactColumns, "cause", cause);
  if (report.diff)
    write_fact(out, kFactColumns, "in detail",
               fmt::format("ttap diff {} {} --by-token   (A is the trainer)", shell_quoted(report.trainer),
                           shell_quoted(report.rollout)));
  if (!report.not_compared.empty())
    write_fact(out, kFactColumns, "no cause", fmt::format("{}: record both models at level full", report.not_compared));
  out.write("\n");
  draw_measures(report, out);
  draw_histogram(report, out);
  draw_worst(report, out);
  for (const std::string& note : report.notes) out.print("\nnote: {}\n", printable(note));
}

}  // namespace ttap
