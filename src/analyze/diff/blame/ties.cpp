#include "analyze/diff/blame/ties.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "analyze/diff/judge/compare_pair.h"
#include "analyze/diff/match/ops/value_likeness.h"
#include "analyze/ops/event_op.h"
#include "analyze/ops/op_facts.h"

namespace ttap {
namespace {

bool is_of_sort(const Side& side, uint32_t record) {
  const TensorRecord made = side.tensor(record);
  if (made.event >= side.event_count()) return false;
  const EventRecord event = side.event(made.event);
  return is_call_of_operator(event) && orders_ties_freely(operator_of(event));
}

int64_t last_size(const TensorView& view) { return view.shape.empty() ? 1 : view.shape.back(); }

// Along the last dimension; nothing where the shapes are of another one, or the indices are none.
std::optional<bool> stand_for_equal_keys(const TensorView& keys, const TensorView& a, const TensorView& b) {
  const uint64_t count = element_count(a);
  const int64_t of_keys = last_size(keys), of_indices = last_size(a);
  const bool readable = a.dtype == DType::kI64 && b.dtype == DType::kI64 && is_contiguous(keys) && is_contiguous(a) &&
                        is_contiguous(b) && count == element_count(b);
  if (!readable || count == 0 || of_keys == 0 ||
      element_count(keys) / static_cast<uint64_t>(of_keys) != count / static_cast<uint64_t>(of_indices))
    return std::nullopt;
  const auto *indices_a = static_cast<const int64_t*>(a.data), *indices_b = static_cast<const int64_t*>(b.data);
  const size_t width = size_of(keys.dtype);
  for (uint64_t i = 0; i < count; ++i) {
    const int64_t at_a = indices_a[i], at_b = indices_b[i];
    if (std::min(at_a, at_b) < 0 || std::max(at_a, at_b) >= of_keys) return std::nullopt;
    const auto* row = static_cast<const std::byte*>(keys.data) + i / of_indices * of_keys * width;
    if (std::memcmp(row + at_a * width, row + at_b * width, width) != 0) return false;
  }
  return true;
}

}  // namespace

bool is_in_another_order(const CallNodes& calls, const TensorDiff& tensor) {
  const TensorRecord a = calls.a().tensor(tensor.match.a), b = calls.b().tensor(tensor.match.b);
  return is_near(a, b) || is_reordered(a, b);
}

bool chooses_among_equal_keys(CallNodes& calls, std::span<const TensorDiff> tensors, uint32_t i) {
  const Match& match = tensors[i].match;
  if (!is_of_sort(calls.a(), match.a) || !is_of_sort(calls.b(), match.b) || !calls.is_made_of_same_bits(i))
    return false;
  const auto indices = read_pair(calls.a(), calls.b(), match);
  for (const uint32_t k : calls.of(i).inputs) {
    if (k == i || !indices.ok() || tensors[k].match.a == kNoTensor) continue;
    const auto keys = calls.a().read(tensors[k].match.a);
    if (!keys.ok()) continue;
    if (const auto equal = stand_for_equal_keys(keys->view, indices->a.view, indices->b.view)) return *equal;
  }
  return is_reordered(calls.a().tensor(match.a), calls.b().tensor(match.b));
}

bool is_order_that_agrees_later(CallNodes& calls, std::span<const TensorDiff> tensors, uint32_t i) {
  if (!differs(tensors[i]) || !is_in_another_order(calls, tensors[i])) return false;
  const Node* code = calls.around(i);
  const auto agrees = [&](uint32_t k) {
    return tensors[k].verdict == Verdict::kIdentical || tensors[k].verdict == Verdict::kWithin;
  };
  return code != nullptr && !code->outputs.empty() && std::ranges::all_of(code->outputs, agrees);
}

}  // namespace ttap
