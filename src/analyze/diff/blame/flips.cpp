#include "analyze/diff/blame/flips.h"

#include "analyze/compare/tolerance.h"

namespace ttap {
namespace {

// Of all choices of a call that does not give what it chose.
constexpr double kFewChoices = 0.1;

}  // namespace

bool is_flipped(CallNodes& calls, std::span<const TensorDiff> tensors, uint32_t i) {
  const TensorDiff& tensor = tensors[i];
  if (tensor.verdict != Verdict::kDiverged || tensor.match.a == kNoTensor || tensor.match.b == kNoTensor) return false;
  if (epsilon_of(dtype_of(calls.a().tensor(tensor.match.a))) > 0 ||
      epsilon_of(dtype_of(calls.b().tensor(tensor.match.b))) > 0)
    return false;
  if (calls.came_in(i)) return false;
  const Node& node = calls.of(i);
  if (node.other || node.unknown > 0) return false;
  bool rounded = node.within > 0;
  for (const uint32_t k : node.inputs) {
    if (k == i) continue;
    const bool by_rounding = tensors[k].like_rounding;
    if (differs(tensors[k]) && !by_rounding) return false;
    rounded |= tensors[k].verdict == Verdict::kWithin || by_rounding;
  }
  if (!rounded) return false;
  bool has_chosen = false;
  for (const uint32_t k : node.outputs) {
    if (k == i || epsilon_of(dtype_of(calls.record_at(k))) == 0) continue;
    has_chosen = true;
    if (tensors[k].verdict == Verdict::kDiverged) return false;
  }
  const Measures* m = tensor.measures.get();
  const bool few = m != nullptr && tensor.evidence == Evidence::kValues &&
                   static_cast<double>(m->unequal) <= kFewChoices * static_cast<double>(m->count);
  return has_chosen || few;
}

}  // namespace ttap
