#include "cuda/tensor_pieces.h"

#include <algorithm>

namespace ttap::cuda {

TensorPieces::TensorPieces(const TensorView& view, uint64_t limit_bytes)
    : data_(static_cast<const std::byte*>(view.data)), dtype_(view.dtype), left_(element_count(view)) {
  if (is_contiguous(view)) {
    dims_ = 1;
    shape_[0] = static_cast<int64_t>(left_);
    strides_[0] = 1;
  } else {
    dims_ = view.ndim();
    std::ranges::copy(view.shape, shape_.begin());
    std::ranges::copy(view.strides, strides_.begin());
  }
  // The outermost axis of which one step fits.
  const uint64_t limit = std::max<uint64_t>(limit_bytes / size_of(dtype_), 1);
  uint64_t below = 1;
  for (axis_ = dims_ - 1; axis_ > 0 && below * static_cast<uint64_t>(shape_[axis_]) <= limit; --axis_)
    below *= static_cast<uint64_t>(shape_[axis_]);
  step_ = static_cast<int64_t>(std::max<uint64_t>(limit / std::max<uint64_t>(below, 1), 1));
}

std::optional<TensorView> TensorPieces::next() {
  if (left_ == 0) return std::nullopt;
  int64_t offset = 0;
  for (size_t i = 0; i <= axis_; ++i) offset += at_[i] * strides_[i];
  const int64_t taken = std::min(step_, shape_[axis_] - at_[axis_]);
  const size_t dims = dims_ - axis_;
  piece_shape_[0] = taken;
  std::copy_n(shape_.begin() + static_cast<ptrdiff_t>(axis_) + 1, dims - 1, piece_shape_.begin() + 1);
  const TensorView piece{data_ + offset * static_cast<int64_t>(size_of(dtype_)),
                         dtype_,
                         {piece_shape_.data(), dims},
                         {strides_.data() + axis_, dims}};
  left_ -= element_count(piece);
  at_[axis_] += taken;
  for (size_t i = axis_; i > 0 && at_[i] == shape_[i]; --i) {
    at_[i] = 0;
    ++at_[i - 1];
  }
  return piece;
}

}  // namespace ttap::cuda
