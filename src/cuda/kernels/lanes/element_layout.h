#pragma once

#include <cstddef>
#include <cstdint>

#include "ttap/api.h"
#include "ttap/tensor_view.h"

namespace ttap::cuda {

// Where the elements of a view lie, as kernels take it. Neighbouring dimensions that one stride covers are merged.
struct ElementLayout {
  const std::byte* data = nullptr;
  uint32_t ndim = 0;
  int64_t shape[kMaxDims];
  int64_t strides[kMaxDims];  // in bytes

  TTAP_HD const std::byte* element(uint64_t index) const {
    if (ndim == 0) return data;
    if (ndim == 1) return data + static_cast<int64_t>(index) * strides[0];
    int64_t offset = 0;
    for (uint32_t d = ndim; d-- > 0;) {
      const auto length = static_cast<uint64_t>(shape[d]);
      const uint64_t above = index / length;
      offset += static_cast<int64_t>(index - above * length) * strides[d];
      index = above;
    }
    return data + offset;
  }
};

inline ElementLayout element_layout(const TensorView& view) {
  ElementLayout layout;
  layout.data = static_cast<const std::byte*>(view.data);
  const auto size = static_cast<int64_t>(size_of(view.dtype));
  int64_t packed = size;
  // From the last dimension up; put the right way round below.
  for (size_t d = view.ndim(); d-- > 0;) {
    const int64_t stride = view.strides.empty() ? packed : view.strides[d] * size;
    packed *= view.shape[d];
    if (view.shape[d] == 1) continue;
    if (layout.ndim > 0) {
      const uint32_t last = layout.ndim - 1;
      if (stride == layout.strides[last] * layout.shape[last]) {
        layout.shape[last] *= view.shape[d];
        continue;
      }
    }
    layout.shape[layout.ndim] = view.shape[d];
    layout.strides[layout.ndim++] = stride;
  }
  for (uint32_t low = 0, high = layout.ndim; low + 1 < high; ++low) {
    --high;
    const int64_t shape = layout.shape[low], stride = layout.strides[low];
    layout.shape[low] = layout.shape[high];
    layout.strides[low] = layout.strides[high];
    layout.shape[high] = shape;
    layout.strides[high] = stride;
  }
  return layout;
}

}  // namespace ttap::cuda
