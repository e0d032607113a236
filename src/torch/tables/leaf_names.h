#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/flat_hash_map.h>

#include <cstddef>
#include <string_view>

#include "capture/ops/text_table.h"

namespace ttap::torch_source {

// Parameters by name, so that the calls that bring their gradients can say whose they are. Keeps none of them alive.
class LeafNames {
 public:
  explicit LeafNames(TextTable& texts) : texts_(texts) {}

  // The first name that a tensor is given is its own.
  void add(const at::Tensor& leaf, std::string_view name);
  // The notes of the calls of autograd's node that this thread evaluates, where that accumulates the gradient of a
  // tensor with a name; else 0.
  TextId notes_here() const;
  void forget(const at::Tensor& leaf) { leaves_.erase(leaf.unsafeGetTensorImpl()); }
  void clear() { leaves_.clear(); }

 private:
  struct Leaf {
    c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> reference;
    TextId notes;
  };

  TextTable& texts_;
  ska::flat_hash_map<const void*, Leaf> leaves_;
  size_t sweep_at_ = 4096;
};

inline constexpr std::string_view kAccumulateGrad = "torch::autograd::AccumulateGrad";

}  // namespace ttap::torch_source
