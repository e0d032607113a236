#include "cli/check_quant.h"
#include "cli/describe.h"
#include "report/quant_picture_report.h"
#include "report/quant_words.h"

namespace ttap::cli {
namespace {

void write_recipe(JsonWriter& json, const QuantRecipe& recipe, const std::optional<double>& least) {
  json.begin_line().member("recipe", recipe.format.name).member("usual_sqnr_db", recipe.usual_sqnr_db);
  json.member("usual_underflow_percent", recipe.usual_underflow);
  json.member("usual_overflow_percent", recipe.usual_overflow);
  json.member("least_sqnr_db", least.value_or(recipe.least_sqnr_db())).end();
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

void write_json(const QuantReport& report, Output& out) {
  JsonWriter json(out);
  json.begin_object().member("format", "ttap-quant").member("version", 1);
  json.member("command", "check").member("path", report.path);
  json.key("quant").begin_array();
  for (const QuantRecipe& recipe : report.recipes) write_recipe(json, recipe, report.least_sqnr_db);
  json.end();
  json.member("judged", report.found.size()).member("suffering", report.suffering());
  json.member("left_out", report.unwanted).member("not_real", report.not_real).member("parts", report.parts);
  json.key("found").begin_array();
  for (const QuantCheckedTensor& found : report.found) write_found(json, found);
  json.end().key("without_twin").begin_array();
  for (const CheckedTensor& tensor : report.without_twin) {
    json.begin_line();
    write_checked(json, tensor);
    json.end();
  }
  json.end().key("unjudged").begin_array();
  for (const CheckTrouble& trouble : report.unjudged) {
    json.begin_line();
    write_checked(json, trouble.tensor);
    json.key("error");
    write_error(json, trouble.error);
    json.end();
  }
  json.end();
  write_passes(json, report.passes, report.unreadable);
  json.end();
}

}  // namespace ttap::cli
