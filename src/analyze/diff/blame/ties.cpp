#include "analyze/diff/blame/ties.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "analyze/compare/tolerance.h"
#include "analyze/diff/judge/compare_pair.h"
#include "analyze/diff/match/ops/value_likeness.h"
#include "analyze/ops/event_op.h"
#include "analyze/ops/op_facts.h"
#include "core/element.h"

namespace ttap {
namespace {

constexpr uint64_t kMostRows = 4096;  // every row of one side is compared with every row of the other
// What two runs of sound code are off by, beside the largest value of a row: steps of the dtype, and in f32 and f64
// what a few layers add up to.
constexpr double kStepsOfRounding = 4;
constexpr double kLeastRounding = 2e-5;

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
  const auto index_at = [](const TensorView& indices, uint64_t i) {
    int64_t index;
    std::memcpy(&index, static_cast<const std::byte*>(indices.data) + i * sizeof(index), sizeof(index));
    return index;
  };
  const size_t width = size_of(keys.dtype);
  for (uint64_t i = 0; i < count; ++i) {
    const int64_t at_a = index_at(a, i), at_b = index_at(b, i);
    if (std::min(at_a, at_b) < 0 || std::max(at_a, at_b) >= of_keys) return std::nullopt;
    const auto* row = static_cast<const std::byte*>(keys.data) + i / of_indices * of_keys * width;
    if (std::memcmp(row + at_a * width, row + at_b * width, width) != 0) return false;
  }
  return true;
}

// The rows of a tensor, along its last dimension, as numbers.
struct Rows {
  explicit Rows(const TensorView& view)
      : length(static_cast<size_t>(last_size(view))), values(element_count(view)), largest(values.size() / length) {
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = value_of(view.dtype, static_cast<const std::byte*>(view.data) + i * size_of(view.dtype));
      largest[i / length] = std::max(largest[i / length], std::abs(values[i]));
    }
  }
  std::span<const double> row(size_t i) const { return std::span(values).subspan(i * length, length); }

  size_t length;
  std::vector<double> values;
  std::vector<double> largest;  // magnitude of each row
};

// Whether each row of one is a row of the other but for rounding; nothing where there are too many to tell.
std::optional<bool> have_same_rows(const TensorView& a, const TensorView& b) {
  const bool readable = is_contiguous(a) && is_contiguous(b) && element_count(a) == element_count(b) &&
                        last_size(a) == last_size(b) && last_size(a) > 0 && element_count(a) > 0 &&
                        element_count(a) / static_cast<uint64_t>(last_size(a)) <= kMostRows;
  if (!readable) return std::nullopt;
  const Rows of_a(a), of_b(b);
  const double rounding = kStepsOfRounding * std::max(epsilon_of(a.dtype), epsilon_of(b.dtype)) + kLeastRounding;
  std::vector<bool> is_taken(of_a.largest.size());
  for (size_t i = 0; i < is_taken.size(); ++i) {
    const double off = rounding * of_a.largest[i];
    const auto is_close = [&](double x, double y) { return std::abs(x - y) <= off; };
    size_t found = 0;
    while (found < is_taken.size() && (is_taken[found] || !std::ranges::equal(of_a.row(i), of_b.row(found), is_close)))
      ++found;
    if (found == is_taken.size()) return false;
    is_taken[found] = true;
  }
  return true;
}

}  // namespace

bool chooses_among_equal_keys(CallNodes& calls, std::span<const TensorDiff> tensors, uint32_t i, bool strict) {
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
  return !strict && is_reordered(calls.a().tensor(match.a), calls.b().tensor(match.b));
}

bool is_order_that_agrees_later(CallNodes& calls, std::span<const TensorDiff> tensors, uint32_t i) {
  const Match& match = tensors[i].match;
  if (!differs(tensors[i]) || match.a == kNoTensor || match.b == kNoTensor) return false;
  const TensorRecord a = calls.a().tensor(match.a), b = calls.b().tensor(match.b);
  if (!is_rounded(a, b) && !is_reordered(a, b)) return false;
  const Node* code = calls.around(i);
  const auto agrees = [&](uint32_t k) {
    return tensors[k].verdict == Verdict::kIdentical || tensors[k].verdict == Verdict::kWithin;
  };
  if (code == nullptr || code->outputs.empty() || !std::ranges::all_of(code->outputs, agrees)) return false;
  const auto views = read_pair(calls.a(), calls.b(), match);
  return !views.ok() || have_same_rows(views->a.view, views->b.view).value_or(true);
}

}  // namespace ttap
