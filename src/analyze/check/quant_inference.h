#pragma once

#include <optional>
#include <vector>

#include "analyze/check/quant_check.h"

// Weights that were quantized and decoded again: plain tensors whose values lie on the grid of a format.
namespace ttap {

// Finds the format that plain tensors were quantized to: `after` is on its grid, and `before` is not. On the grid of
// integers are multiples of a step for each block; on that of floating-point codes what quantizing once more changes by
// nothing, beside what the format does to other tensors.
class QuantInference {
 public:
  // Both of one shape, with bytes, of f16, bf16, f32 or f64. All formats are tried with the first few tensors; after
  // that those that were recognised.
  std::optional<QuantRecipe> format_of(const TensorView& before, const TensorView& after);

 private:
  bool is_on_grid(const QuantRecipe& recipe, const TensorView& before, const TensorView& after) const;
  void make_candidates();

  std::vector<QuantRecipe> candidates_;  // those that were recognised first
  size_t recognised_ = 0;
  size_t tried_ = 0;
};

// What became of a tensor: as quant_statistics() of a group, without what only codes and scales tell.
QuantStats quant_statistics_of_values(const TensorView& before, const TensorView& after);

// In C order.
std::vector<float> floats_of(const TensorView& view);

}  // namespace ttap
