#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyze/check/quant_check.h"
#include "analyze/compare/quant_picture.h"
#include "cli/arguments/command.h"
#include "report/check/check_report.h"

// `ttap check --quant`: which tensors would suffer in which format; without a format, in the one they are in.
namespace ttap::cli {

struct QuantOptions {
  std::vector<std::string> recipes = {};
  std::optional<double> least_sqnr_db = {};
  std::string against = {};
  std::string html = {};
  size_t details = 20;  // tensors with pictures in the page

  bool asked() const { return !recipes.empty() || !against.empty(); }
};
void add_quant_options(Verb& verb, QuantOptions& options);

// A finding, kept apart from its pass.
struct QuantCheckedTensor {
  CheckedTensor tensor;
  QuantFinding finding;
  std::optional<QuantPicture> picture = {};  // in the page: of the recipe it fares worst in
};

struct QuantReport {
  std::string path = {};
  uint32_t run = 1, runs = 1;  // which of the runs in its directory
  std::string filter = {};
  std::vector<QuantRecipe> recipes = {};
  bool of_use = false;  // none was asked for: they are those in use
  std::optional<double> least_sqnr_db = {};
  bool all = false;                            // every tensor is listed
  std::vector<QuantCheckedTensor> found = {};  // the worst first
  uint64_t unwanted = 0;
  uint64_t not_real = 0;
  uint64_t plain = 0;
  uint64_t parts = 0;
  std::vector<CheckedTensor> without_twin = {};
  std::string against = {};
  std::vector<CheckTrouble> unjudged = {};
  std::vector<CheckedPass> passes = {};
  std::vector<Error> unreadable = {};

  uint64_t suffering() const;
  ExitCode exit_code() const;
};

Result<ExitCode> check_quant(const SelectionOptions& selection, const QuantOptions& options, bool all, Output& out);

void draw_report(const QuantReport& report, Output& out);
// Of each list no more than `most`, and how many are left out.
void write_json(const QuantReport& report, Output& out, size_t most = SIZE_MAX);

}  // namespace ttap::cli
