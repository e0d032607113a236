#include "analyze/diff/blame/scaled_elsewhere.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "analyze/diff/judge/compare_pair.h"
#include "core/element.h"

namespace ttap {
namespace {

bool are_of_different_classes(const Side& a, const Side& b, const Match& match) {
  const ModuleFacts *one = a.module(a.tensor(match.a).name), *other = b.module(b.tensor(match.b).name);
  return one != nullptr && other != nullptr && one->class_name() != other->class_name();
}

// The factor by which B's values are A's, but for an error of `most` beside their size.
std::optional<double> factor_of(const Side& a, const Side& b, const Match& match, double most) {
  const auto views = read_pair(a, b, match);
  if (!views.ok() || !is_contiguous(views->a.view) || !is_contiguous(views->b.view)) return std::nullopt;
  const TensorView &one = views->a.view, &other = views->b.view;
  const auto at = [](const TensorView& view, uint64_t i) {
    return value_of(view.dtype, static_cast<const std::byte*>(view.data) + i * size_of(view.dtype));
  };
  double aa = 0, ab = 0, bb = 0;
  const uint64_t count = element_count(one);
  for (uint64_t i = 0; i < count; ++i) {
    const double x = at(one, i), y = at(other, i);
    aa += x * x, ab += x * y, bb += y * y;
  }
  if (!(aa > 0 && bb > 0) || !std::isfinite(aa + bb)) return std::nullopt;
  const double factor = ab / aa;
  double error = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const double off = at(other, i) - factor * at(one, i);
    error += off * off;
  }
  return std::sqrt(error / bb) <= most ? std::optional(factor) : std::nullopt;
}

}  // namespace

void accept_scaled_elsewhere(const Side& a, const Side& b, std::span<TensorDiff> tensors) {
  bool next_agrees = false;
  for (size_t i = tensors.size(); i-- > 0;) {
    TensorDiff& tensor = tensors[i];
    if (tensor.match.a == kNoTensor || tensor.match.b == kNoTensor) continue;
    const bool may_be = next_agrees && tensor.verdict == Verdict::kDiverged && tensor.judge != nullptr &&
                        tensor.evidence == Evidence::kValues && are_of_different_classes(a, b, tensor.match);
    const auto factor = may_be ? factor_of(a, b, tensor.match, tensor.judge->most_relative) : std::nullopt;
    if (factor) {
      tensor.verdict = Verdict::kWithin;
      tensor.note += fmt::format("{}B's is A's times {:.6g}, and what follows agrees: the factor is elsewhere in B",
                                 tensor.note.empty() ? "" : "; ", *factor);
    }
    next_agrees = !differs(tensor);
  }
}

}  // namespace ttap
