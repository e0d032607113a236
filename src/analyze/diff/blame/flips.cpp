#include "analyze/diff/blame/flips.h"

#include <algorithm>
#include <cmath>

#include "analyze/compare/tolerance.h"
#include "analyze/diff/blame/ties.h"
#include "analyze/diff/judge/compare_pair.h"
#include "analyze/diff/match/ops/value_likeness.h"
#include "analyze/ops/event_op.h"
#include "analyze/ops/op_facts.h"
#include "core/element.h"

namespace ttap {
namespace {

// Of all choices of a call that does not give what it chose.
constexpr double kFewChoices = 0.1;
// Values that are off by a share r of their size pass a threshold in about as large a share of the elements.
constexpr double kOfShare = 4;
constexpr double kGrownElsewhere = 8;  // of what came in, in the elements that did not
constexpr double kUsual = 2;           // where nothing passes one

bool jumps(const Side& side, const TensorRecord& record) {
  return record.event < side.event_count() && is_call_of_operator(side.event(record.event)) &&
         jumps_at_thresholds(operator_of(side.event(record.event)));
}

// Elements that are zero on one side only, as a share of all, and the error of the others beside the size of all.
struct Jumped {
  double share;
  double rest;
};
std::optional<Jumped> jumped_in(const Side& a, const Side& b, const TensorDiff& tensor) {
  const auto views = read_pair(a, b, tensor.match);
  if (!views.ok()) return std::nullopt;
  const TensorView &x = views->a.view, &y = views->b.view;
  const uint64_t count = element_count(x);
  if (count == 0 || !is_contiguous(x) || !is_contiguous(y) || count != element_count(y)) return std::nullopt;
  uint64_t jumped = 0;
  double rest = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const double of_a = value_of(x.dtype, static_cast<const std::byte*>(x.data) + i * size_of(x.dtype));
    const double of_b = value_of(y.dtype, static_cast<const std::byte*>(y.data) + i * size_of(y.dtype));
    if ((of_a == 0) != (of_b == 0))
      ++jumped;
    else
      rest += (of_b - of_a) * (of_b - of_a);
  }
  const auto n = static_cast<double>(count);
  return Jumped{static_cast<double>(jumped) / n, std::sqrt(rest / n) / tensor.measures->rms_a};
}

// `came`: the largest relative error of what went in.
bool is_explained_by_jumps(const CallNodes& calls, const TensorDiff& tensor, double came) {
  const Side &a = calls.a(), &b = calls.b();
  if (!is_measured(tensor)) return false;
  const double whole = tensor.measures->rmse / tensor.measures->rms_a;
  if (!differs(tensor) && whole <= kUsual * came) return false;
  if (!(jumps(a, a.tensor(tensor.match.a)) || jumps(b, b.tensor(tensor.match.b)))) return false;
  if (tensor.evidence == Evidence::kSketch) return whole * whole <= kOfShare * came;
  const auto found = jumped_in(a, b, tensor);
  return found && found->share <= kOfShare * came && found->rest <= kGrownElsewhere * came;
}

// As far as the statistics tell.
bool is_in_another_order(const CallNodes& calls, const TensorDiff& tensor) {
  const TensorRecord a = calls.a().tensor(tensor.match.a), b = calls.b().tensor(tensor.match.b);
  return is_near(a, b) || is_reordered(a, b);
}

}  // namespace

std::string flip_of(CallNodes& calls, std::span<const TensorDiff> tensors, uint32_t i, bool strict) {
  constexpr const char* kTie = "what it chooses between differs within tolerance, and ties within that";
  const TensorDiff& tensor = tensors[i];
  if (tensor.verdict == Verdict::kIdentical || tensor.match.a == kNoTensor || tensor.match.b == kNoTensor) return {};
  const bool is_float = epsilon_of(dtype_of(calls.a().tensor(tensor.match.a))) > 0 ||
                        epsilon_of(dtype_of(calls.b().tensor(tensor.match.b))) > 0;
  const bool made_of_unknown = !calls.is_of_op(i) && calls.of(i).input_count() == 0;
  if (calls.came_in(i) || made_of_unknown)
    return !strict && is_order_that_agrees_later(calls, tensors, i)
               ? "it has the same rows in another order, and what the call around it returns agrees"
               : "";
  if (!is_float && tensor.verdict != Verdict::kDiverged) return {};
  const Node& node = calls.of(i);
  if (node.other || node.unknown > 0) return {};
  bool rounded = node.within > 0;
  double came = 0;
  for (const uint32_t k : node.inputs) {
    if (k == i) continue;
    const bool by_rounding = tensors[k].like_rounding;
    if (differs(tensors[k]) && !by_rounding) return {};
    rounded |= tensors[k].verdict == Verdict::kWithin || by_rounding;
    if (is_measured(tensors[k])) came = std::max(came, tensors[k].measures->rmse / tensors[k].measures->rms_a);
  }
  if (is_float && node.through_sort && differs(tensor) && is_in_another_order(calls, tensor))
    return "it holds the same values in another order, and those that are sorted by equal keys may stand in any";
  if (!is_float && chooses_among_equal_keys(calls, tensors, i, strict))
    return "the keys are the same, and those that are equal may stand in any order";
  if (!rounded) return {};
  if (is_float) return is_explained_by_jumps(calls, tensor, came) ? kTie : "";
  bool has_chosen = false;
  for (const uint32_t k : node.outputs) {
    if (k == i || epsilon_of(dtype_of(calls.record_at(k))) == 0) continue;
    has_chosen = true;
    if (tensors[k].verdict == Verdict::kDiverged) return {};
  }
  const Measures* m = tensor.measures.get();
  const bool few = m != nullptr && tensor.evidence == Evidence::kValues &&
                   static_cast<double>(m->unequal) <= kFewChoices * static_cast<double>(m->count);
  return has_chosen || few ? kTie : "";
}

}  // namespace ttap
