#include "cli/check_quant.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/error_text.h"
#include "cli/progress.h"

namespace ttap::cli {
namespace {

Result<std::vector<QuantRecipe>> read_recipes(const std::vector<std::string>& names) {
  std::vector<QuantRecipe> recipes;
  for (const std::string& name : names) {
    auto format = quant_format(name);
    if (!format.ok()) {
      Error error = std::move(format).error();
      error.message = fmt::format("--quant: {}", error.message);
      if (error.hint.empty()) error.hint = fmt::format("there are {}", fmt::join(quant_format_names(), ", "));
      return error;
    }
    const auto same = [&](const QuantRecipe& recipe) { return recipe.format.name == format->name; };
    if (std::ranges::any_of(recipes, same)) continue;
    TTAP_ASSIGN(QuantRecipe recipe, quant_recipe(*format));
    recipes.push_back(std::move(recipe));
  }
  return recipes;
}

void check_pass(const SelectedPass& selected, const Pass& pass, const Selection& selection, QuantReport& report) {
  QuantCheckOptions options;
  options.least_sqnr_db = report.least_sqnr_db;
  if (selection.filter) options.scan.wanted = [&](const TensorRecord& tensor) { return selection.wants(tensor); };
  Progress progress(fmt::format("quantizing pass {}", pass.info().number), pass.tensor_count());
  options.scan.progress = [&](const TensorRecord&) { progress.advance(); };
  QuantCheckReport found = check_quant(pass, report.recipes, options);
  report.unwanted += found.unwanted;
  report.not_real += found.not_real;
  for (QuantFinding& finding : found.found)
    report.found.push_back({checked_tensor(selected, pass, finding.tensor), std::move(finding)});
  for (const Unjudged& unjudged : found.unjudged)
    report.unjudged.push_back({checked_tensor(selected, pass, unjudged.tensor), unjudged.error});
}

}  // namespace

uint64_t QuantReport::suffering() const {
  return static_cast<uint64_t>(
      std::ranges::count_if(found, [](const QuantCheckedTensor& tensor) { return tensor.finding.suffers(); }));
}

ExitCode QuantReport::exit_code() const {
  const auto failed = [](const CheckTrouble& trouble) { return trouble.error.code != ErrorCode::kNotRecorded; };
  if (!unreadable.empty() || std::ranges::any_of(unjudged, failed)) return kError;
  return suffering() == 0 ? kFine : kFinding;
}

void add_quant_options(CLI::App& verb, QuantOptions& options) {
  verb.add_option("--quant", options.recipes,
                  "Instead of NaN and Inf: what quantizing to these formats would do to each tensor, the worst first")
      ->delimiter(',')
      ->type_name("FORMAT[,FORMAT...]");
  verb.add_option("--min-sqnr", options.least_sqnr_db,
                  "With --quant: a tensor suffers below so many dB, whatever the format")
      ->needs("--quant")
      ->type_name("DB");
}

Result<ExitCode> check_quant(const SelectionOptions& asked, const QuantOptions& options, bool all, Output& out) {
  QuantReport report;
  TTAP_ASSIGN(report.recipes, read_recipes(options.recipes));
  TTAP_ASSIGN(const Selection selection, select_some_passes(asked));
  report.path = selection.run->path.string();
  report.filter = asked.filter;
  report.least_sqnr_db = options.least_sqnr_db;
  report.all = all;
  for (const SelectedPass& selected : selection.passes) {
    const auto pass = open_pass(selected);
    if (!pass.ok()) {
      if (selection.passes.size() == 1) return pass.error();
      report.unreadable.push_back(pass.error());
      continue;
    }
    check_pass(selected, *pass, selection, report);
    report.passes.push_back({selected.rank->number, selected.rank->pid, pass->info()});
  }
  std::ranges::stable_sort(report.found, is_worse, &QuantCheckedTensor::finding);
  asked.json ? write_json(report, out) : draw_report(report, out);
  out.flush();
  for (const Error& error : report.unreadable) print_error("check", error);
  return report.exit_code();
}

}  // namespace ttap::cli
