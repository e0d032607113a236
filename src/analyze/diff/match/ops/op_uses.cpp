#include "analyze/diff/match/ops/op_uses.h"

namespace ttap {

OpUses::OpUses(const OpList& list) : first_(list.tensor_count() + 1) {
  const auto for_each_use = [&](auto&& visit) {
    for (uint32_t i = 0; i < list.ops().size(); ++i) {
      for (const uint32_t input : list.inputs(list.ops()[i]))
        if (input != kNoTensor) visit(i, input);
      for (const uint32_t part : list.parts(list.ops()[i])) visit(i, part);
    }
  };
  for_each_use([&](uint32_t, uint32_t tensor) { ++first_[tensor + 1]; });
  for (size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
  users_.resize(first_.back());
  std::vector<uint32_t> next(first_.begin(), first_.end() - 1);
  for_each_use([&](uint32_t op, uint32_t tensor) { users_[next[tensor]++] = op; });
}

}  // namespace ttap
