#pragma once

#include <vector>

#include "analyze/values/scan.h"

namespace ttap {

// Whether a tensor of this dtype holds values that somebody may quantize.
inline bool is_real(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16 || dtype == DType::kF32 || dtype == DType::kF64;
}

// A view that quant_statistics() and encode() take: f64 is rounded to f32 first, as whoever quantizes it would do. The
// view that it is made of lives longer, with its shape and strides.
class RealValues {
 public:
  explicit RealValues(const TensorView& view) : view_(view) {
    if (view.dtype != DType::kF64) return;
    rounded_.reserve(element_count(view));
    for_each_value<ElementType<DType::kF64>>(view, [&](uint64_t, int, double value) {
      rounded_.push_back(static_cast<float>(value));
      return true;
    });
    view_ = {rounded_.data(), DType::kF32, view.shape, {}};
  }
  RealValues(const RealValues&) = delete;
  RealValues& operator=(const RealValues&) = delete;

  const TensorView& view() const { return view_; }

 private:
  TensorView view_;
  std::vector<float> rounded_;
};

}  // namespace ttap
