#include "analyze/check/quant_inference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "analyze/values/real_values.h"
#include "analyze/values/scan.h"

namespace ttap {
namespace {

constexpr const char* kCandidates[] = {
    "int4_group32",      "int4_group64",       "int4_group128",     "int4_channel", "int4_group32_asym",
    "int4_group64_asym", "int4_group128_asym", "int4_channel_asym", "nvfp4",        "mxfp4",
    "mxfp8_e4m3",        "fp8_e4m3_row",       "fp8_e4m3",          "int8",         "int8_channel_asym",
    "int8_tensor",       "fp8_block_128x128",
};

constexpr size_t kTensorsTried = 4;

// Of integers: how far values are from multiples of their block's step, as a root mean square in steps. Any value has
// 0.29; one of eight bits that was rounded to bf16 about 0.05.
constexpr double kOnGridSteps = 0.15;

// Of floating-point codes, whose scale follows from the largest one: a second quantization errs by the rounding of the
// tensor's dtype at most: bf16 keeps 60 dB, and the finest of these formats 43.
constexpr double kOnGridDecibels = 12;
constexpr double kOffGridDecibels = 6;

bool is_integer(const QuantFormat& format) {
  return format.element == QuantElement::kInt4 || format.element == QuantElement::kUInt4 ||
         format.element == QuantElement::kInt8 || format.element == QuantElement::kUInt8;
}

// The sum of squares, in steps, of what values are off the multiples of a step. One that is not zero, and would be, is
// no multiple.
double off_multiples(std::span<const float* const> rows, int64_t columns, double step) {
  double sum = 0;
  for (const float* row : rows)
    for (int64_t k = 0; k < columns; ++k) {
      const double steps = static_cast<double>(row[k]) / step;
      const double off = row[k] != 0 && std::round(steps) == 0 ? 0.5 : steps - std::round(steps);
      sum += off * off;
    }
  return sum;
}

// Of one block. Which code its largest value has depends on who quantized it: the last, or the one before.
double off_grid_of_block(std::span<const float* const> rows, int64_t columns, const QuantFormat& format) {
  double low = 0, high = 0;
  for (const float* row : rows)
    for (int64_t k = 0; k < columns; ++k) {
      low = std::min(low, static_cast<double>(row[k]));
      high = std::max(high, static_cast<double>(row[k]));
    }
  if (!(high > low) || !std::isfinite(high - low)) return 0;
  const double codes = std::exp2(bits_of(format.element));
  const bool has_zero_point = format.zero_point != ZeroPoint::kNone;
  const double range = has_zero_point ? high - low : std::max(high, -low);
  const double last = has_zero_point ? codes - 1 : codes / 2;
  return std::min(off_multiples(rows, columns, range / last), off_multiples(rows, columns, range / (last - 1)));
}

// As a root mean square over the values of the tensor, seen as a matrix.
double off_grid(const std::vector<float>& values, int64_t columns, const QuantFormat& format) {
  const int64_t rows = static_cast<int64_t>(values.size()) / columns;
  const int64_t block_rows = format.block_rows > 0 ? format.block_rows : rows;
  const int64_t block_columns = format.block_columns > 0 ? format.block_columns : columns;
  double sum = 0;
  for (int64_t row = 0; row < rows; row += block_rows)
    for (int64_t column = 0; column < columns; column += block_columns) {
      std::vector<const float*> block;
      for (int64_t i = row; i < std::min(rows, row + block_rows); ++i) block.push_back(&values[i * columns + column]);
      sum += off_grid_of_block(block, std::min(block_columns, columns - column), format);
    }
  // Zeros are on every grid.
  const auto nonzero = std::ranges::count_if(values, [](float value) { return value != 0; });
  return nonzero == 0 ? 1 : std::sqrt(sum / static_cast<double>(nonzero));
}

}  // namespace

void QuantInference::make_candidates() {
  for (const char* name : kCandidates)
    if (const auto format = quant_format(name); format.ok())
      if (auto recipe = quant_recipe(*format); recipe.ok()) candidates_.push_back(std::move(recipe).value());
}

bool QuantInference::is_on_grid(const QuantRecipe& recipe, const TensorView& before, const TensorView& after) const {
  if (before.shape.empty() || before.shape.back() == 0 || element_count(before) == 0) return false;
  if (is_integer(recipe.format)) {
    const int64_t columns = before.shape.back();
    return off_grid(floats_of(after), columns, recipe.format) < kOnGridSteps &&
           off_grid(floats_of(before), columns, recipe.format) >= kOnGridSteps;
  }
  const auto decibels = [&](const TensorView& view) {
    const auto stats = quant_statistics(view, std::span(&recipe.format, 1));
    return stats.ok() ? stats->front().sqnr_db : std::numeric_limits<double>::quiet_NaN();
  };
  return decibels(after) >= recipe.usual_sqnr_db + kOnGridDecibels &&
         decibels(before) < recipe.usual_sqnr_db + kOffGridDecibels;
}

std::optional<QuantRecipe> QuantInference::format_of(const TensorView& before, const TensorView& after) {
  if (tried_ == 0) make_candidates();
  if (tried_++ == kTensorsTried) candidates_.resize(recognised_);
  const RealValues a(before), b(after);
  const auto found = std::ranges::find_if(
      candidates_, [&](const QuantRecipe& recipe) { return is_on_grid(recipe, a.view(), b.view()); });
  if (found == candidates_.end()) return std::nullopt;
  if (found >= candidates_.begin() + static_cast<std::ptrdiff_t>(recognised_)) ++recognised_;
  std::rotate(candidates_.begin(), found, found + 1);
  return candidates_.front();
}

std::vector<float> floats_of(const TensorView& view) {
  std::vector<float> values;
  values.reserve(element_count(view));
  with_element_type(view.dtype, [&]<class Element>(Element) {
    for_each_value<Element>(view, [&](uint64_t, int, auto value) {
      values.push_back(static_cast<float>(value));
      return true;
    });
  });
  return values;
}

QuantStats quant_statistics_of_values(const TensorView& before, const TensorView& after) {
  const std::vector<float> a = floats_of(before), b = floats_of(after);
  QuantStats stats;
  stats.count = a.size();
  double squares = 0, errors = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i])) {
      ++stats.not_finite;
    } else if (!std::isfinite(b[i])) {
      ++stats.overflow;
    } else {
      const double error = std::abs(static_cast<double>(b[i]) - static_cast<double>(a[i]));
      stats.underflow += a[i] != 0 && b[i] == 0;
      stats.amax = std::max(stats.amax, std::abs(static_cast<double>(a[i])));
      stats.max_error = std::max(stats.max_error, error);
      squares += static_cast<double>(a[i]) * static_cast<double>(a[i]);
      errors += error * error;
    }
  }
  stats.mse = a.empty() ? 0 : errors / static_cast<double>(a.size());
  stats.sqnr_db = 10 * std::log10(squares / errors);
  stats.scale_min = stats.scale_max = std::numeric_limits<double>::quiet_NaN();
  return stats;
}

}  // namespace ttap
