#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analyze/check/quant_check.h"
#include "analyze/diff/result/verdict.h"
#include "analyze/diff/sides/settings.h"
#include "analyze/diff/sides/side.h"

// One side's weights are quantized: which layers lose more by it than they must.
namespace ttap {

// A weight that is quantized on one side only, by its position among the tensors of a pass.
struct QuantLayer {
  uint32_t weight = kNoTensor;
  QuantOutcome outcome;
  // What the weight's error adds to the layer's output by itself: of a product with the inputs of the quantized side,
  // whatever error these have; as a share of the output. NaN where the inputs were not recorded, or it is no product.
  double own_error;
  double added;         // the same by its root mean square, not beside the output
  double weight_error;  // as a share of the weight
  bool is_outlier = false;

  double error() const { return own_error == own_error ? own_error : weight_error; }
};

struct QuantizedWeights {
  bool of_b = true;
  bool inferred = false;                // no quantized parts were recorded: the values lie on the grid of a format
  std::vector<QuantLayer> layers = {};  // the outliers by their error, then the others by what they add

  bool any() const { return !layers.empty(); }
};

// An outlier is harmed by its format as QuantHarm says; or its error is kOutlierFactor times that of most other layers,
// and of what its format does to normally distributed weights.
inline constexpr double kOutlierFactor = 3;
QuantizedWeights find_quantized_weights(const Side& a, const Side& b, std::span<const TensorDiff> tensors);

// Behind a layer whose weights are quantized, what a call makes of its inputs is no error of its own, unless it makes
// something unrelated of them, or was told to do something else.
void inherit_from_quantized_weights(const Side& a, const QuantizedWeights& weights,
                                    std::span<const SettingDiff> settings, std::span<TensorDiff> tensors);

}  // namespace ttap
