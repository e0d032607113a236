#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "analyze/diff/match/ops/side_ops.h"
#include "analyze/diff/result/verdict.h"

// Gradients as they are handed to parameters. Of however many operators or kernels they are made, both programs are to
// hand the same to the same parameter.
namespace ttap {

struct GradientPair {
  std::string parameter;
  uint32_t a, b;  // tensor records
};

// By the parameter's name: the first gradient of one side is the first of the other, and so on. Those of tensors
// without a name, where each side has one of that shape.
std::vector<GradientPair> find_gradients(const Side& a, const Side& b);

// Where nothing differs, after find_causes(): marks gradients that were not held against each other, because each
// has its counterpart elsewhere or none, and are not the same. They are known to be wrong, and `reason` says which.
void find_wrong_gradients(const SideOps& a, const SideOps& b, std::span<TensorDiff> tensors);

}  // namespace ttap
