#include <bit>

#include "cuda/kernels/device_job.h"

namespace ttap::cuda {

StridedLayout strided_layout(const TensorView& view) {
  StridedLayout layout;
  const auto size = static_cast<int64_t>(size_of(view.dtype));
  // From the last axis: one dimension of bytes, then the axes, merged where one stride covers both.
  uint64_t shape[StridedLayout::kMost] = {static_cast<uint64_t>(size)};
  int64_t strides[StridedLayout::kMost] = {1};
  uint32_t dims = 1;
  int64_t c_order = 1;
  for (size_t i = view.ndim(); i-- > 0;) {
    const int64_t extent = view.shape[i];
    const int64_t stride = (view.strides.empty() ? c_order : view.strides[i]) * size;
    c_order *= extent;
    if (extent == 1) continue;
    if (stride == strides[dims - 1] * static_cast<int64_t>(shape[dims - 1])) {
      shape[dims - 1] *= static_cast<uint64_t>(extent);
    } else {
      shape[dims] = static_cast<uint64_t>(extent);
      strides[dims++] = stride;
    }
  }
  uint64_t all = 16 | reinterpret_cast<uintptr_t>(view.data) | shape[0];
  for (uint32_t i = 1; i < dims; ++i) all |= static_cast<uint64_t>(strides[i]);
  layout.unit = 1u << std::countr_zero(all);
  shape[0] /= layout.unit;
  strides[0] = layout.unit;
  for (uint32_t i = dims; i-- > 0;) {
    if (i == 0 && shape[0] == 1 && dims > 1) continue;
    layout.shape[layout.dims] = shape[i];
    layout.strides[layout.dims++] = strides[i];
  }
  return layout;
}

std::optional<VectorLayout> vector_layout(const StridedLayout& layout) {
  if (layout.unit != kVectorBytes || layout.dims == 0 || layout.dims > VectorLayout::kMost) return std::nullopt;
  uint64_t vectors = 1;
  for (uint32_t i = 0; i < layout.dims; ++i) vectors *= layout.shape[i];
  if (vectors >> 31 != 0) return std::nullopt;
  VectorLayout made{.dims = layout.dims};
  for (uint32_t i = 0; i < layout.dims; ++i) {
    if (i + 1 < layout.dims) made.shape[i] = divisor(layout.shape[layout.dims - 1 - i]);
    made.strides[i] = layout.strides[layout.dims - 1 - i];
  }
  return made;
}

}  // namespace ttap::cuda
