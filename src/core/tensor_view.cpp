#include "ttap/tensor_view.h"

#include <fmt/format.h>

#include <limits>

namespace ttap {
namespace {

Error invalid(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

// Whether every byte the strides reach, and one step more in each dimension, is a 63-bit distance from the first.
bool strides_fit(const TensorView& view) {
  int64_t reach[2] = {0, 0};  // backwards, forwards
  for (size_t i = 0; i < view.strides.size(); ++i) {
    if (view.shape[i] == 1) continue;
    int64_t distance = 0;
    if (__builtin_mul_overflow(view.strides[i], static_cast<int64_t>(size_of(view.dtype)), &distance) ||
        __builtin_mul_overflow(distance, view.shape[i], &distance))
      return false;
    int64_t& total = reach[distance > 0 ? 1 : 0];
    if (__builtin_add_overflow(total, distance, &total)) return false;
  }
  return true;
}

}  // namespace

Result<uint64_t> checked_element_count(std::span<const int64_t> shape, DType dtype) {
  if (shape.size() > kMaxDims) {
    return Error{ErrorCode::kTooLarge, fmt::format("{} dimensions; at most {} are supported", shape.size(), kMaxDims)};
  }
  // A zero dimension makes the product zero, but the others must still be sane.
  uint64_t product = 1;
  bool empty = false;
  const uint64_t limit = static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) / size_of(dtype);
  for (int64_t dim : shape) {
    if (dim < 0) return invalid(fmt::format("negative dimension {}", dim));
    if (dim == 0) {
      empty = true;
      continue;
    }
    if (product > limit / static_cast<uint64_t>(dim))
      return Error{ErrorCode::kTooLarge, "the shape has more elements than memory can hold"};
    product *= static_cast<uint64_t>(dim);
  }
  return empty ? 0 : product;
}

Status validate_layout(const TensorView& view) {
  if (!dtype_from_number(static_cast<uint8_t>(view.dtype))) return invalid("unknown dtype");
  TTAP_ASSIGN(uint64_t count, checked_element_count(view.shape, view.dtype));
  if (!view.strides.empty() && view.strides.size() != view.shape.size())
    return invalid(fmt::format("{} strides for {} dimensions", view.strides.size(), view.shape.size()));
  if (count > 0 && !strides_fit(view)) return Error{ErrorCode::kTooLarge, "the strides reach further than memory can"};
  return {};
}

Status validate(const TensorView& view) {
  TTAP_TRY(validate_layout(view));
  if (view.data == nullptr && element_count(view) > 0) return invalid("the tensor has elements but no data");
  return {};
}

uint64_t element_count(const TensorView& view) {
  uint64_t product = 1;
  for (int64_t dim : view.shape) product *= static_cast<uint64_t>(dim);
  return product;
}

bool is_contiguous(const TensorView& view) {
  if (view.strides.empty() || element_count(view) == 0) return true;
  int64_t expected = 1;
  for (size_t i = view.ndim(); i-- > 0;) {
    if (view.shape[i] == 1) continue;
    if (view.strides[i] != expected) return false;
    expected *= view.shape[i];
  }
  return true;
}

std::vector<int64_t> contiguous_strides(std::span<const int64_t> shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t step = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = step;
    step *= shape[i] > 0 ? shape[i] : 1;
  }
  return strides;
}

}  // namespace ttap
