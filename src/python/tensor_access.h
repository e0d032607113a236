#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <optional>

#include "ttap/tensor_view.h"

namespace ttap::python {

// A strided torch.Tensor of the CPU or a GPU, seen through its Python attributes. The tensor must outlive it.
class TensorAccess {
 public:
  // Raises what the attributes raise, and TypeError for a dtype that is not known.
  explicit TensorAccess(nanobind::handle tensor);
  TensorAccess(const TensorAccess&) = delete;
  TensorAccess& operator=(const TensorAccess&) = delete;

  // Without its bytes: what has none (a fake or meta tensor) has a shape and a dtype.
  static TensorAccess without_bytes(nanobind::handle tensor) { return TensorAccess(tensor, false); }

  TensorView view() const;

 private:
  TensorAccess(nanobind::handle tensor, bool with_bytes);

  const void* data_ = nullptr;
  DType dtype_ = DType::kF32;
  size_t dims_ = 0;
  std::array<int64_t, kMaxDims> shape_;
  std::array<int64_t, kMaxDims> strides_;
  bool has_strides_ = false;
};

void init_tensor_access(nanobind::module_& m);

}  // namespace ttap::python
