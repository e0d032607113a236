#include <algorithm>
#include <cmath>
#include <span>

#include "cli/check/quant.h"
#include "report/run/describe.h"
#include "report/tensor/quant_picture_report.h"
#include "report/tensor/quant_words.h"

namespace ttap::cli {
namespace {

// How all tensors would fare in a recipe.
void write_summary(JsonWriter& json, const QuantReport& report, const std::string& recipe) {
  std::vector<double> decibels;
  uint64_t judged = 0;
  uint64_t suffering = 0;
  for (const QuantCheckedTensor& found : report.found)
    for (const QuantOutcome& outcome : found.finding.outcomes) {
      if (outcome.in_use != report.of_use || outcome.recipe.format.name != recipe) continue;
      ++judged;
      suffering += outcome.harm != QuantHarm::kNone;
      if (!std::isnan(outcome.stats.sqnr_db)) decibels.push_back(outcome.stats.sqnr_db);
    }
  std::ranges::sort(decibels);
  const auto decibels_at = [&](std::string_view name, size_t place) {
    json.key(name);
    decibels.empty() ? json.null() : json.value(decibels[place]);
  };
  json.member("judged", judged).member("suffering", suffering);
  decibels_at("median_sqnr_db", decibels.size() / 2);
  decibels_at("lowest_sqnr_db", 0);
}

void write_recipe(JsonWriter& json, const QuantReport& report, const QuantRecipe& recipe) {
  json.begin_line().member("recipe", recipe.format.name).member("usual_sqnr_db", recipe.usual_sqnr_db);
  json.member("usual_underflow_percent", recipe.usual_underflow);
  json.member("usual_overflow_percent", recipe.usual_overflow);
  json.member("least_sqnr_db", report.least_sqnr_db.value_or(recipe.least_sqnr_db()));
  write_summary(json, report, recipe.format.name);
  json.end();
}

void write_found(JsonWriter& json, const QuantCheckedTensor& found) {
  json.begin_object();
  write_checked(json, found.tensor);
  json.member("suffers", found.finding.suffers()).member("words", quant_words(found.finding));
  json.key("recipes").begin_array();
  for (const QuantOutcome& outcome : found.finding.outcomes) {
    json.begin_line().member("recipe", outcome.recipe.format.name).member("in_use", outcome.in_use).key("harm");
    outcome.harm == QuantHarm::kNone ? json.null() : json.value(to_string(outcome.harm));
    write_quant_stats(json, outcome.stats);
    json.end();
  }
  json.end();
  if (found.picture) {
    json.key("picture");
    write_quant_picture(json, *found.picture);
  }
  json.end();
}

}  // namespace

void write_json(const QuantReport& report, Output& out, size_t most) {
  JsonWriter json(out);
  json.begin_object().member("format", "ttap-quant").member("version", 1);
  json.member("command", "check").member("path", report.path).member("run", report.run).member("runs", report.runs);
  json.key("quant").begin_array();
  for (const QuantRecipe& recipe : report.recipes) write_recipe(json, report, recipe);
  json.end();
  json.member("judged", report.found.size()).member("suffering", report.suffering());
  json.member("left_out", report.unwanted)
      .member("not_real", report.not_real)
      .member("plain", report.plain)
      .member("parts", report.parts);
  const auto listed = [most](const auto& list) { return std::span(list).first(std::min(list.size(), most)); };
  const auto not_listed = [&](std::string_view name, const auto& list) {
    json.member(name, list.size() - listed(list).size());
  };
  json.key("not_listed").begin_line();
  not_listed("found", report.found);
  not_listed("without_twin", report.without_twin);
  not_listed("unjudged", report.unjudged);
  json.end().key("found").begin_array();
  for (const QuantCheckedTensor& found : listed(report.found)) write_found(json, found);
  json.end().key("without_twin").begin_array();
  for (const CheckedTensor& tensor : listed(report.without_twin)) {
    json.begin_line();
    write_checked(json, tensor);
    json.end();
  }
  json.end();
  write_troubles(json, "unjudged", listed(report.unjudged));
  write_passes(json, report.passes, report.unreadable);
  json.end();
}

}  // namespace ttap::cli
