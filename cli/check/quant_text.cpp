#include <fmt/format.h>

#include <algorithm>

#include "cli/check/quant.h"
#include "report/tensor/quant_words.h"
#include "report/text/table.h"
#include "report/text/text.h"

namespace ttap::cli {
namespace {

constexpr size_t kTensorsShown = 10;

// How the run fares in each recipe.
void draw_recipes(const QuantReport& report, Output& out) {
  using enum Table::Align;
  Table table({{"recipe"},
               {"suffer", kRight},
               {"usual", kRight},
               {"median", kRight},
               {"lowest", kRight},
               {"of", kLeft, 0, true}});
  for (const QuantRecipe& recipe : report.recipes) {
    std::vector<double> decibels;
    size_t suffering = 0;
    const QuantCheckedTensor* worst = nullptr;
    double lowest = 0;
    for (const QuantCheckedTensor& found : report.found)
      for (const QuantOutcome& outcome : found.finding.outcomes) {
        if (outcome.in_use != report.of_use || outcome.recipe.format.name != recipe.format.name) continue;
        decibels.push_back(outcome.stats.sqnr_db);
        suffering += outcome.harm != QuantHarm::kNone;
        if (worst != nullptr && lowest <= outcome.stats.sqnr_db) continue;
        worst = &found;
        lowest = outcome.stats.sqnr_db;
      }
    if (worst == nullptr) continue;
    std::ranges::nth_element(decibels, decibels.begin() + static_cast<std::ptrdiff_t>(decibels.size() / 2));
    table.add(recipe.format.name, Style::kBold);
    table.add(fmt::format("{} of {}", suffering, decibels.size()), suffering > 0 ? Style::kRed : Style::kPlain);
    table.add(sqnr_text(recipe.usual_sqnr_db), Style::kDim);
    table.add(sqnr_text(decibels[decibels.size() / 2]));
    table.add(sqnr_text(lowest));
    table.add(printable(worst->tensor.key));
  }
  table.draw(out);
}

void draw_tensors(const QuantReport& report, size_t shown, Output& out) {
  using enum Table::Align;
  Table table({{"rank", kRight, 7},
               {"pass", kRight, 6},
               {"key", kLeft, 0, true},
               {"shape", kLeft, 5},
               {"recipe"},
               {"SQNR", kRight},
               {"mse", kRight, 4},
               {"underflow", kRight},
               {"overflow", kRight},
               {"scale min", kRight, 3},
               {"scale max", kRight, 3},
               {"range", kRight, 2},
               {"in a block", kRight, 1}});
  const auto real = [](double value) { return statistic_text(value, DType::kF64, 3); };
  for (size_t i = 0; i < shown; ++i) {
    const auto& [tensor, finding, picture] = report.found[i];
    bool first = true;
    for (const QuantOutcome& outcome : finding.outcomes) {
      const auto once = [&](const std::string& text) { return first ? text : std::string(); };
      const auto style = [&](QuantHarm harm) { return outcome.harm == harm ? Style::kRed : Style::kPlain; };
      table.add(once(fmt::format("{}", tensor.rank)));
      table.add(once(fmt::format("{}", tensor.pass)));
      table.add(once(printable(tensor.key)));
      table.add(once(shape_text(tensor.shape)));
      table.add(recipe_text(outcome), outcome.harm != QuantHarm::kNone ? Style::kRed : Style::kPlain);
      table.add(sqnr_text(outcome.stats.sqnr_db), style(QuantHarm::kError));
      table.add(real(outcome.stats.mse));
      table.add(percent_text(outcome.stats.underflow_percent()), style(QuantHarm::kUnderflow));
      table.add(percent_text(outcome.stats.overflow_percent()), style(QuantHarm::kOverflow));
      table.add(real(outcome.stats.scale_min));
      table.add(real(outcome.stats.scale_max));
      table.add(range_text(outcome.stats.dynamic_range));
      table.add(range_text(outcome.stats.block_dynamic_range));
      first = false;
    }
  }
  table.draw(out);
}

void warn(Output& out, const std::string& text) {
  if (text.empty()) return;
  out.write(Style::kYellow, "warning");
  out.print(": {}\n", text);
}

void draw_trouble(const QuantReport& report, Output& out) {
  for (const CheckedPass& pass : report.passes)
    if (pass.info.ending != Ending::kComplete)
      warn(out, fmt::format("pass {} of rank {}: {}", pass.info.number, pass.rank, to_string(pass.info.ending)));
  draw_unjudged(report.unjudged, out);
  if (!report.without_twin.empty())
    out.print("{} no high-precision twin{}\n",
              count_text(report.without_twin.size(), "quantized tensor has", "quantized tensors have"),
              report.against.empty() ? " here: --against RUN holds them against the tensors of another run"
                                     : fmt::format(" in {}", printable(report.against)));
  if (report.not_real > 0)
    out.print("{} not of f16, bf16, f32 or f64\n", count_text(report.not_real, "tensor was", "tensors were"));
  if (report.plain > 0) out.print("{} not quantized\n", count_text(report.plain, "tensor is", "tensors are"));
  if (report.unwanted > 0)
    out.print("{} left out by --filter '{}'\n", count_text(report.unwanted, "tensor was", "tensors were"),
              printable(report.filter));
}

}  // namespace

void draw_report(const QuantReport& report, Output& out) {
  const uint64_t suffering = report.suffering();
  if (!report.found.empty()) {
    draw_recipes(report, out);
    // All that suffer are listed, as long as they are few; a handful of others shows where the rest begins.
    const size_t shown = report.all ? report.found.size() : std::min(report.found.size(), kTensorsShown);
    out.write("\n");
    draw_tensors(report, shown, out);
    if (shown < report.found.size())
      out.print("... and {} less bad (--all lists them)\n",
                count_text(report.found.size() - shown, "tensor that is", "tensors that are"));
    out.write("\n");
    for (size_t i = 0; i < shown; ++i) {
      const auto& [tensor, finding, picture] = report.found[i];
      out.write(finding.suffers() ? Style::kRed : Style::kBold, printable(tensor.key));
      out.print("  {}\n", printable(quant_words(finding)));
    }
    out.write("\n");
  }
  draw_trouble(report, out);
  const std::string judged = fmt::format("{} of {}", count_text(report.found.size(), "tensor", "tensors"),
                                         count_text(report.passes.size(), "pass", "passes"));
  if (suffering == 0) {
    out.write(report.found.empty() ? Style::kYellow : Style::kGreen, "none suffers");
    out.print(" of {}\n", judged);
  } else {
    out.write(Style::kRed, fmt::format("{} suffer{}", suffering, suffering == 1 ? "s" : ""));
    out.print(" of {}\n", judged);
  }
}

}  // namespace ttap::cli
