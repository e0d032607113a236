#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>

#include "analyze/check/quant_check.h"
#include "analyze/compare/tolerance.h"

namespace ttap {
namespace {

// Between neighbouring codes: beside a value of any size, and near zero.
struct Steps {
  double relative = 0;
  double near_zero = 0;
};

Steps steps_of(QuantElement element) {
  switch (element) {
    case QuantElement::kE4M3: return {0x1p-3, 0x1p-9};
    case QuantElement::kE4M3Fnuz: return {0x1p-3, 0x1p-10};
    case QuantElement::kE5M2: return {0x1p-2, 0x1p-16};
    case QuantElement::kE5M2Fnuz: return {0x1p-2, 0x1p-17};
    case QuantElement::kE2M3: return {0x1p-3, 0x1p-3};
    case QuantElement::kE3M2: return {0x1p-2, 0x1p-4};
    case QuantElement::kE2M1: return {0x1p-1, 0x1p-1};
    default: return {0, 1};  // integers
  }
}

// As a share of the tensor's root mean square; made once for each format, of which a run has few.
double usual_error(const QuantFormat& format) {
  static std::mutex mutex;
  static std::map<std::string, double> known;
  const std::string text = to_json(format);
  const std::lock_guard lock(mutex);
  const auto found = known.find(text);
  if (found != known.end()) return found->second;
  const auto recipe = quant_recipe(format);
  // Of a format that cannot be tried: that of its element with a scale for the tensor, or nothing is said.
  const double error = recipe.ok() ? std::pow(10, -recipe->usual_sqnr_db / 20) : steps_of(format.element).relative / 4;
  return known[text] = error;
}

}  // namespace

QuantTolerance quant_tolerance(const QuantFormat& format, double max_abs) {
  const Steps steps = steps_of(format.element);
  const double largest_scale =
      std::isfinite(max_abs) ? max_abs / static_cast<double>(largest_value(format.element)) : 0;
  return {.rtol = steps.relative,
          .atol = steps.near_zero * largest_scale,
          .relative = 2 * usual_error(format),
          .format = format.name.empty() ? std::string("quantized") : format.name};
}

QuantTolerance coarser(const QuantTolerance& a, const QuantTolerance& b) {
  return {.rtol = std::max(a.rtol, b.rtol),
          .atol = std::max(a.atol, b.atol),
          .relative = std::max(a.relative, b.relative),
          .format = a.relative >= b.relative ? a.format : b.format};
}

}  // namespace ttap
