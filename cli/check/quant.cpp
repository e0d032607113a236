#include "cli/check/quant.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyze/check/quant_groups.h"
#include "cli/arguments/against.h"
#include "cli/arguments/command_line.h"
#include "cli/messages/error_text.h"
#include "cli/messages/progress.h"
#include "report/diff/diff_page.h"
#include "report/text/output_file.h"

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

void check_pass(const SelectedPass& selected, const Pass& pass, const Selection& selection, const Pass* against,
                QuantReport& report) {
  QuantCheckOptions options;
  options.against = against;
  options.least_sqnr_db = report.least_sqnr_db;
  if (selection.filter) options.scan.wanted = [&](const TensorRecord& tensor) { return selection.wants(tensor); };
  Progress progress(fmt::format("quantizing pass {}", pass.info().number), pass.tensor_count());
  options.scan.progress = [&](const TensorRecord&) { progress.advance(); };
  QuantCheckReport found = check_quant(pass, report.recipes, options);
  report.unwanted += found.unwanted;
  report.not_real += found.not_real;
  report.plain += found.plain;
  report.parts += found.parts;
  for (const size_t tensor : found.without_twin) report.without_twin.push_back(checked_tensor(selected, pass, tensor));
  for (QuantFinding& finding : found.found)
    report.found.push_back({checked_tensor(selected, pass, finding.tensor), std::move(finding)});
  for (const Unjudged& unjudged : found.unjudged)
    report.unjudged.push_back({checked_tensor(selected, pass, unjudged.tensor), unjudged.error});
}

// The recipe that a tensor fares worst in, of those that were asked for.
const QuantOutcome& worst_of(const QuantFinding& finding) {
  return *std::ranges::min_element(finding.outcomes, [](const QuantOutcome& a, const QuantOutcome& b) {
    const auto rank = [](const QuantOutcome& outcome) {
      return std::pair(outcome.harm == QuantHarm::kNone, outcome.stats.sqnr_db);
    };
    return rank(a) < rank(b);
  });
}

// Those in use, in the order in which they are first met.
std::vector<QuantRecipe> recipes_in_use(const QuantReport& report) {
  std::vector<QuantRecipe> recipes;
  for (const QuantCheckedTensor& found : report.found)
    for (const QuantOutcome& outcome : found.finding.outcomes) {
      const auto same = [&](const QuantRecipe& recipe) { return recipe.format.name == outcome.recipe.format.name; };
      if (outcome.in_use && std::ranges::none_of(recipes, same)) recipes.push_back(outcome.recipe);
    }
  return recipes;
}

Result<QuantPicture> picture_of(const Pass& pass, const Pass* against, const QuantFinding& finding) {
  if (pass.tensor(finding.tensor).group.empty()) {
    TTAP_ASSIGN(const TensorView view, pass.read(finding.tensor));
    return quant_picture(view, worst_of(finding).recipe.format);
  }
  const auto twin = find_quant_twin(pass, finding.tensor, against);
  TTAP_CHECK(twin);
  TTAP_ASSIGN(const TensorView view, twin->pass->read(twin->tensor));
  const QuantOutcome& worst = worst_of(finding);
  if (!worst.in_use) return quant_picture(view, worst.recipe.format);
  TTAP_ASSIGN(const GroupParts parts, group_of(pass, finding.tensor));
  TTAP_ASSIGN(const QuantGroup group, read_group(pass, parts));
  return quant_picture(group, &view);
}

// So many tensors are a few megabytes; a browser that has to read a hundred of them opens the page late, or never.
constexpr size_t kMostInPage = 5000;

// A picture that cannot be had is left out: what is wrong with the tensor was said already.
void add_pictures(QuantReport& report, const Selection& selection, Against& against, size_t count) {
  count = std::min({count, report.found.size(), kMostInPage});
  Progress progress("making pictures", count);
  for (const SelectedPass& selected : selection.passes) {
    std::optional<Pass> pass;
    const Pass* twins = nullptr;
    for (size_t i = 0; i < count; ++i) {
      QuantCheckedTensor& found = report.found[i];
      if (found.tensor.rank != selected.rank->number || found.tensor.pid != selected.rank->pid ||
          found.tensor.pass != selected.file->number || found.finding.outcomes.empty())
        continue;
      progress.advance();
      if (!pass) {
        auto opened = open_pass(selected);
        if (!opened.ok()) break;
        pass = std::move(opened).value();
        if (auto other = against.pass_for(selected); other.ok()) twins = *other;
      }
      if (auto picture = picture_of(*pass, twins, found.finding); picture.ok())
        found.picture = std::move(picture).value();
    }
  }
}

Status write_quant_page(const QuantReport& report, const std::string& path) {
  std::string json;
  Output out(json);
  write_json(report, out, kMostInPage);
  TTAP_TRY(out.finish());
  return write_page(json, fmt::format("ttap check {} --quant", report.path), path);
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

void add_quant_options(Verb& verb, QuantOptions& options) {
  verb.add_option("--quant", options.recipes,
                  "Instead of NaN and Inf: what quantizing to these formats would do to each tensor, the worst first")
      .delimiter(',')
      .type_name("FORMAT[,FORMAT...]");
  verb.add_option("--min-sqnr", options.least_sqnr_db,
                  "With --quant or --against: a tensor suffers below so many dB, whatever the format")
      .type_name("DB");
  verb.add_option("--against", options.against,
                  "Instead of NaN and Inf: the high-precision run that quantized tensors are held against, by key; "
                  "without --quant in the format they have")
      .type_name("RUN");
  verb.add_option("--html", options.html, "With --quant or --against: also write a page that needs nothing else")
      .type_name("FILE");
  verb.add_option("--details", options.details, "How many tensors get pictures in the page")
      .needs("--html")
      .show_default();
}

Result<ExitCode> check_quant(const SelectionOptions& asked, const QuantOptions& options, bool all, Output& out) {
  QuantReport report;
  TTAP_ASSIGN(report.recipes, read_recipes(options.recipes));
  if (options.least_sqnr_db && !std::isfinite(*options.least_sqnr_db))
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = fmt::format("--min-sqnr: {} is no limit", *options.least_sqnr_db),
                 .hint = "give a finite number of dB: --min-sqnr 20"};
  TTAP_ASSIGN(const Selection selection, select_some_passes(asked));
  TTAP_ASSIGN(Against against, Against::open(options.against));
  report.path = selection.run->path.string();
  report.run = selection.run->number;
  report.runs = selection.run->runs;
  report.against = options.against;
  report.filter = asked.filter;
  report.least_sqnr_db = options.least_sqnr_db;
  report.all = all;
  report.of_use = options.recipes.empty();
  for (const SelectedPass& selected : selection.passes) {
    const auto pass = open_pass(selected);
    if (!pass.ok()) {
      if (selection.passes.size() == 1) return pass.error();
      report.unreadable.push_back(pass.error());
      continue;
    }
    TTAP_ASSIGN(const Pass* twins, against.pass_for(selected));
    check_pass(selected, *pass, selection, twins, report);
    report.passes.push_back({selected.rank->number, selected.rank->pid, pass->info()});
  }
  if (report.of_use) {
    report.recipes = recipes_in_use(report);
    if (report.found.empty() && report.without_twin.empty() && report.unjudged.empty() && report.unreadable.empty())
      return Error{.code = ErrorCode::kNotFound,
                   .message = fmt::format(
                       "no tensor of {} is quantized, and no weight has the values of a quantized one", report.path),
                   .hint = "record both runs with the role `param`; --quant FORMAT says what a format would do"};
  }
  std::ranges::stable_sort(report.found, is_worse, &QuantCheckedTensor::finding);
  asked.json ? write_json(report, out) : draw_report(report, out);
  out.flush();
  // The answer first: a file that cannot be written does not cost it.
  if (!options.html.empty()) {
    add_pictures(report, selection, against, options.details);
    const Status written = write_quant_page(report, options.html);
    if (!written.ok()) return as_unwritable(written.error(), options.html);
    if (!asked.json) out.print("page: {}\n", options.html);
  }
  for (const Error& error : report.unreadable) print_error("check", error);
  return report.exit_code();
}

}  // namespace ttap::cli
