#pragma once

#include <cmath>

#include "analyze/diff/result/verdict.h"

namespace ttap {

// How large an error is beside what it is an error of: as a whole, and at its worst.
struct Relative {
  double whole = 0;
  double worst = 0;
};
inline Relative relative(const TensorDiff& tensor) {
  if (tensor.verdict == Verdict::kIdentical) return {};
  // What the statistics give is the least it can be; what they let pass may be as large as the tolerance.
  if (!is_measured(tensor)) {
    const bool passed = tensor.verdict == Verdict::kWithin && tensor.judge != nullptr;
    const double most = passed ? tensor.judge->most_relative : std::nan("");
    return {most, most};
  }
  const double whole = tensor.rounding > 0 ? tensor.measures->rmse / tensor.measures->rms_a : relative_error(tensor);
  // A sketch does not tell of one value.
  if (tensor.evidence == Evidence::kSketch) return {whole, whole};
  return {whole, tensor.measures->max_abs / tensor.measures->rmse * whole};
}

}  // namespace ttap
