#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyze/compare/quant_picture.h"
#include "analyze/values/extremes.h"
#include "analyze/values/histogram.h"
#include "analyze/values/sample.h"
#include "cli/arguments/selection.h"
#include "report/text/output.h"
#include "ttap/run.h"

namespace ttap::cli {

// Everything `ttap show` found out about one tensor.
struct TensorReport {
  SelectedPass selected;
  Pass pass;
  size_t index;
  TensorRecord tensor;
  std::optional<Stats> stats = {};
  bool stats_computed = false;  // from the bytes, just now
  // Of the bytes; empty when they are not there, and `no_bytes` says why.
  std::optional<Histogram> histogram = {};
  std::optional<Extremes> extremes = {};
  std::optional<Sample> sample = {};
  std::vector<int64_t> at = {};            // --index: the sample is of what lies there
  std::vector<int64_t> sample_shape = {};  // and this is its shape
  std::optional<Error> no_bytes = {};
  bool decoded = false;  // the values are those of a quantized tensor
  std::optional<QuantPicture> quant = {};
  bool what_if = false;                // it is not quantized: --quant asks what would be
  std::vector<uint32_t> also_in = {};  // other passes with this key, as far as they were looked at
  size_t not_looked_at = 0;
};

void draw_report(const TensorReport& report, bool log_scale, Output& out);

}  // namespace ttap::cli
