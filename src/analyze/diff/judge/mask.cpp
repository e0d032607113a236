#include "analyze/diff/judge/mask.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "analyze/compare/measures.h"
#include "analyze/compare/tolerance.h"
#include "core/element.h"

namespace ttap {
namespace {

// A score to which the lowest value of a narrow dtype was added is near that: −65504 + 1.1. In a wide dtype it is lost.
constexpr double kOfScores = 1.0 / 128;

bool is_plain(const TensorView& view) {
  return dtype_info(view.dtype).kind == DTypeKind::kFloat && view.dtype != DType::kF4E2M1FNx2 && is_contiguous(view);
}

double value_at(const TensorView& view, uint64_t i) {
  return value_of(view.dtype, static_cast<const std::byte*>(view.data) + i * size_of(view.dtype));
}

double lowest_of(const TensorView& view) {
  double lowest = std::numeric_limits<double>::infinity();
  for (uint64_t i = 0; i < element_count(view); ++i) lowest = std::fmin(lowest, value_at(view, i));
  return lowest;
}

}  // namespace

std::optional<Unmasked> without_mask(const TensorView& a, const TensorView& b) {
  if (!is_plain(a) || !is_plain(b)) return std::nullopt;
  const double lowest_a = lowest_of(a), lowest_b = lowest_of(b);
  if (!is_masked(lowest_a) || !is_masked(lowest_b)) return std::nullopt;
  const Tolerance close{.rtol = 4 * std::max(epsilon_of(a.dtype), epsilon_of(b.dtype))};
  const auto copied = [](const TensorView& view) {
    const auto* bytes = static_cast<const std::byte*>(view.data);
    return std::vector<std::byte>(bytes, bytes + byte_count(view));
  };
  Unmasked made{.bytes_a = copied(a), .bytes_b = copied(b), .a = a, .b = b};
  const auto is_lowest = [](double value, double lowest) {
    return value == lowest || (std::isfinite(lowest) && std::abs(value - lowest) <= kOfScores * std::abs(lowest));
  };
  bool any = false;
  for (uint64_t i = 0; i < element_count(a); ++i) {
    const double x = value_at(a, i), y = value_at(b, i);
    if (!is_masked(x) || !is_masked(y) || (std::isinf(x) && x == y)) continue;
    if (!(is_lowest(x, lowest_a) && is_lowest(y, lowest_b)) && !is_close(y, x, close)) continue;
    std::memset(made.bytes_a.data() + i * size_of(a.dtype), 0, size_of(a.dtype));
    std::memset(made.bytes_b.data() + i * size_of(b.dtype), 0, size_of(b.dtype));
    any = true;
  }
  if (!any) return std::nullopt;
  made.a.data = made.bytes_a.data();
  made.b.data = made.bytes_b.data();
  return made;
}

}  // namespace ttap
