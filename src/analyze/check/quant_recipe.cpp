#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "analyze/check/quant_check.h"
#include "core/mix64.h"

namespace ttap {
namespace {

// Every block, group or row of a recipe is full in this shape.
constexpr std::array<int64_t, 2> kShape = {256, 1024};

// In (0, 1), the same on every machine.
double uniform(uint64_t number) {
  return (static_cast<double>(mix64(number * 0x9E3779B97F4A7C15u) >> 11) + 0.5) * 0x1p-53;
}

const std::vector<float>& normal_values() {
  static const std::vector<float> values = [] {
    std::vector<float> made(static_cast<size_t>(kShape[0] * kShape[1]));
    for (size_t i = 0; i < made.size(); ++i)
      made[i] = static_cast<float>(std::sqrt(-2 * std::log(uniform(2 * i + 1))) *
                                   std::cos(2 * std::numbers::pi * uniform(2 * i + 2)));
    return made;
  }();
  return values;
}

}  // namespace

double QuantRecipe::least_sqnr_db() const { return std::min(usual_sqnr_db - kDecibels, kGoodDecibels); }

Result<QuantRecipe> quant_recipe(const QuantFormat& format) {
  const TensorView view{normal_values().data(), DType::kF32, kShape, {}};
  TTAP_ASSIGN(const auto stats, quant_statistics(view, std::span(&format, 1)));
  return QuantRecipe{.format = format,
                     .usual_sqnr_db = stats.front().sqnr_db,
                     .usual_underflow = stats.front().underflow_percent(),
                     .usual_overflow = stats.front().overflow_percent()};
}

std::string_view to_string(QuantHarm harm) {
  constexpr std::array<std::string_view, 4> kNames = {"", "overflow", "underflow", "error"};
  return kNames[static_cast<size_t>(harm)];
}

bool QuantFinding::suffers() const {
  return std::ranges::any_of(outcomes, [](const QuantOutcome& outcome) { return outcome.harm != QuantHarm::kNone; });
}

double QuantFinding::worst_sqnr_db() const {
  double worst = std::numeric_limits<double>::infinity();
  for (const QuantOutcome& outcome : outcomes) worst = std::min(worst, outcome.stats.sqnr_db);
  return worst;
}

bool is_worse(const QuantFinding& a, const QuantFinding& b) {
  if (a.suffers() != b.suffers()) return a.suffers();
  return a.worst_sqnr_db() < b.worst_sqnr_db();
}

}  // namespace ttap
