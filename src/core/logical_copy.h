#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "ttap/tensor_view.h"

namespace ttap {

// Reads any range of a tensor's logical elements, C order, whatever its strides. Made once per tensor; copy()
// may then be called from several threads. The view must have passed validate() and outlive this.
class TTAP_API LogicalCopy {
 public:
  explicit LogicalCopy(const TensorView& view);

  bool contiguous() const { return contiguous_; }
  uint64_t elements() const { return elements_; }
  size_t element_size() const { return element_size_; }

  // Elements [first, first + count) into `target`, packed.
  void copy(uint64_t first, uint64_t count, void* target) const;

 private:
  const std::byte* data_;
  size_t element_size_;
  uint64_t elements_;
  bool contiguous_;
  // Neighbouring dimensions that one stride covers are merged, so most tensors have one or two left.
  size_t ndim_ = 0;
  std::array<int64_t, kMaxDims> shape_;
  std::array<int64_t, kMaxDims> strides_;  // in bytes
};

}  // namespace ttap
