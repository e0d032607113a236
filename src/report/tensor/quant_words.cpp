#include "report/tensor/quant_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/text/text.h"

namespace ttap {
namespace {

// What goes wrong in one recipe.
std::string harm_text(const QuantOutcome& outcome) {
  const std::string recipe = recipe_text(outcome);
  switch (outcome.harm) {
    case QuantHarm::kOverflow:
      return fmt::format("has {} of its values beyond the end of {}", percent_text(outcome.stats.overflow_percent()),
                         recipe);
    case QuantHarm::kUnderflow:
      return fmt::format("loses {} of its values to underflow in {}", percent_text(outcome.stats.underflow_percent()),
                         recipe);
    case QuantHarm::kError:
      if (std::isinf(outcome.stats.sqnr_db)) return fmt::format("has nothing left in {}", recipe);
      return fmt::format("keeps only {} in {}, where {} are usual", sqnr_text(outcome.stats.sqnr_db), recipe,
                         sqnr_text(outcome.recipe.usual_sqnr_db));
    case QuantHarm::kNone: break;
  }
  return fmt::format("keeps {} in {}", sqnr_text(outcome.stats.sqnr_db), recipe);
}

}  // namespace

std::string sqnr_text(double sqnr_db) {
  if (std::isnan(sqnr_db)) return "unknown";
  if (std::isinf(sqnr_db)) return sqnr_db > 0 ? "exact" : "nothing left";
  return fmt::format("{:.1f} dB", sqnr_db);
}

std::string percent_text(double percent) {
  if (percent == 0) return "0 %";
  if (percent < 0.01) return "<0.01 %";
  return fmt::format("{:.{}f} %", percent, percent < 1 ? 2 : percent < 10 ? 1 : 0);
}

std::string range_text(double powers) { return fmt::format("2^{:.1f}", powers); }

std::string recipe_text(const QuantOutcome& outcome) {
  return outcome.in_use ? outcome.recipe.format.name + " (in use)" : outcome.recipe.format.name;
}

std::string quant_words(const QuantFinding& finding) {
  const QuantStats stats = finding.outcomes.empty() ? QuantStats{} : finding.outcomes.front().stats;
  if (stats.count > 0 && stats.not_finite == stats.count) return "has no finite value: there is nothing to quantize";
  std::vector<const QuantOutcome*> bad;
  std::vector<const QuantOutcome*> good;
  for (const QuantOutcome& outcome : finding.outcomes)
    (outcome.harm == QuantHarm::kNone ? good : bad).push_back(&outcome);
  const auto lower = [](const QuantOutcome* a, const QuantOutcome* b) { return a->stats.sqnr_db < b->stats.sqnr_db; };
  std::ranges::stable_sort(bad, lower);
  std::ranges::stable_sort(good, lower);
  std::string text;
  for (const QuantOutcome* outcome : bad) text += (text.empty() ? "" : "; ") + harm_text(*outcome);
  const auto keeps = [](const QuantOutcome& outcome) {
    const bool exact = std::isinf(outcome.stats.sqnr_db) && outcome.stats.sqnr_db > 0;
    return fmt::format("{} keeps {}", recipe_text(outcome), exact ? "it exactly" : sqnr_text(outcome.stats.sqnr_db));
  };
  if (!good.empty() && bad.empty() && good.size() > 1)
    text = fmt::format("fits all of them: {}, {}", keeps(*good.front()), keeps(*good.back()));
  else if (!good.empty())
    text += (text.empty() ? "" : "; ") + keeps(*good.back());
  if (stats.not_finite > 0)
    text += fmt::format("; {} finite before", count_text(stats.not_finite, "value was not", "values were not"));
  return text;
}

void write_quant_stats(JsonWriter& json, const QuantStats& stats) {
  json.member("count", stats.count).member("not_finite", stats.not_finite).member("sqnr_db", stats.sqnr_db);
  json.member("mse", stats.mse).member("max_error", stats.max_error).member("underflow", stats.underflow);
  json.member("underflow_percent", stats.underflow_percent()).member("overflow", stats.overflow);
  json.member("overflow_percent", stats.overflow_percent()).member("scale_min", stats.scale_min);
  json.member("scale_max", stats.scale_max).member("scales_nan", stats.scales_nan);
  json.member("zero_blocks", stats.zero_blocks).member("amax", stats.amax);
  json.member("dynamic_range", stats.dynamic_range).member("block_dynamic_range", stats.block_dynamic_range);
}

}  // namespace ttap
