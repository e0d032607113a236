#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "python/tensor_access.h"
#include "ttap/recorder.h"

namespace ttap::python {

// How many rows of a tensor are alive, as Python says it: None for all, an int, or a CUDA tensor of one integer, which
// is read when the stream gets there. It must outlive this.
class GpuRows {
 public:
  explicit GpuRows(nanobind::handle rows) {
    if (rows.is_none()) return;
    if (PyLong_Check(rows.ptr())) {
      count_ = PyLong_AsLongLong(rows.ptr());
      if (*count_ == -1 && PyErr_Occurred() != nullptr) throw nanobind::python_error();
      return;
    }
    const TensorAccess access(rows);
    const TensorView view = access.view();
    if ((view.dtype != DType::kI32 && view.dtype != DType::kI64) || element_count(view) != 1)
      throw nanobind::type_error("rows must be an int, or a tensor of one int32 or int64");
    on_device_ = view.data;
    is_64_bit_ = view.dtype == DType::kI64;
  }

  void limit(OnGpu& gpu) const {
    gpu.rows = on_device_;
    gpu.rows_are_64_bit = is_64_bit_;
  }
  // The view with as many rows as a given int says; `shape` is where its shape then lies.
  TensorView limit(TensorView view, std::array<int64_t, kMaxDims>& shape) const {
    if (!count_ || view.shape.empty()) return view;
    std::ranges::copy(view.shape, shape.begin());
    shape[0] = std::clamp<int64_t>(*count_, 0, shape[0]);
    view.shape = {shape.data(), view.shape.size()};
    return view;
  }

 private:
  std::optional<int64_t> count_;
  const void* on_device_ = nullptr;
  bool is_64_bit_ = true;
};

}  // namespace ttap::python
