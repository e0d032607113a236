#include "torch/tables/leaf_names.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <algorithm>
#include <iterator>

#include "torch/tables/notes.h"

namespace ttap::torch_source {

void LeafNames::add(const at::Tensor& leaf, std::string_view name) {
  if (!leaf.defined()) return;
  if (leaves_.size() >= sweep_at_) {
    for (auto it = leaves_.begin(); it != leaves_.end();)
      it = it->second.reference.expired() ? leaves_.erase(it) : std::next(it);
    sweep_at_ = std::max(sweep_at_, 2 * leaves_.size());
  }
  JsonObject notes;
  notes.add("node", json_string(kAccumulateGrad));
  notes.add("gradient", json_string(name));
  const c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> reference(leaf.getIntrusivePtr());
  leaves_.emplace(leaf.unsafeGetTensorImpl(), Leaf{reference, texts_.intern(notes.str())});
}

TextId LeafNames::notes_here() const {
  if (leaves_.empty()) return 0;
  const auto node = torch::autograd::get_current_node();
  const auto* const accumulate = dynamic_cast<const torch::autograd::AccumulateGrad*>(node.get());
  if (accumulate == nullptr || !accumulate->variable.defined()) return 0;
  const auto found = leaves_.find(accumulate->variable.unsafeGetTensorImpl());
  return found != leaves_.end() ? found->second.notes : 0;
}

}  // namespace ttap::torch_source
