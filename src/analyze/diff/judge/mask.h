#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "ttap/tensor_view.h"

namespace ttap {

// Two tensors with zeros where both are masked.
struct Unmasked {
  std::vector<std::byte> bytes_a = {}, bytes_b = {};
  TensorView a = {}, b = {};
};

// A mask is a mask, whatever number it is written with: the lowest float32 in A and the lowest float16 in B agree, and
// beside either of them no other value would count. Values are masked on both sides where both are of that size and
// each is its tensor's lowest, or the two agree as closely as the coarser dtype tells. Nothing where none are, and for
// tensors that are not plain floats in C order.
std::optional<Unmasked> without_mask(const TensorView& a, const TensorView& b);

}  // namespace ttap
