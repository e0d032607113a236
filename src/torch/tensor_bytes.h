#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "ttap/tensor_view.h"

namespace ttap::torch_source {

// The bytes of a tensor where the processor can read them, as long as this lives: in place, or a copy of what lies on
// another device or is lazily negated or conjugated.
class TensorBytes {
 public:
  // Null when they cannot be had. Changes the strides of `view` when it made a copy.
  const void* of(const at::Tensor& tensor, TensorView& view);

 private:
  at::Tensor host_;
  std::vector<std::byte> resolved_;
};

}  // namespace ttap::torch_source
