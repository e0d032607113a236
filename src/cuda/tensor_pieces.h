#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "ttap/tensor_view.h"

namespace ttap::cuda {

// A tensor cut into views that follow one another in C order, none larger than a limit. Looks at no data.
class TensorPieces {
 public:
  // The view passes validate(), and an element is no larger than the limit.
  TensorPieces(const TensorView& view, uint64_t limit_bytes);

  // The next piece, or nothing after the last. Its shape and strides are good until the next call.
  std::optional<TensorView> next();
  bool done() const { return left_ == 0; }

 private:
  const std::byte* data_;
  DType dtype_;
  size_t dims_;
  std::array<int64_t, kMaxDims> shape_;
  std::array<int64_t, kMaxDims> strides_;
  size_t axis_ = 0;                        // the one that is cut; those before it stand still in a piece
  int64_t step_ = 1;                       // how much of it a piece has, at most
  std::array<int64_t, kMaxDims> at_ = {};  // where the next piece begins
  uint64_t left_ = 0;                      // elements
  std::array<int64_t, kMaxDims> piece_shape_;
};

}  // namespace ttap::cuda
