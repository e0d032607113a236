#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "ttap/tensor_view.h"

namespace ttap::testing {

// A buffer of distinct bytes and a view into it with the given strides, which may be zero or negative.
class StridedTensor {
 public:
  StridedTensor(DType dtype, std::vector<int64_t> shape, std::vector<int64_t> strides)
      : dtype_(dtype), shape_(std::move(shape)), strides_(std::move(strides)) {
    int64_t lowest = 0, highest = 0;
    for (size_t i = 0; i < shape_.size(); ++i) {
      const int64_t reach = shape_[i] > 0 ? (shape_[i] - 1) * strides_[i] : 0;
      (reach < 0 ? lowest : highest) += reach;
    }
    origin_ = -lowest * static_cast<int64_t>(size_of(dtype));
    bytes_.resize(static_cast<size_t>(highest - lowest + 1) * size_of(dtype));
    for (size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<std::byte>(i * 37 + i / 251);
  }

  TensorView view() const { return {bytes_.data() + origin_, dtype_, shape_, strides_}; }

  // The logical elements, found one index at a time.
  std::vector<std::byte> packed() const {
    std::vector<std::byte> out;
    std::vector<int64_t> index(shape_.size(), 0);
    const int64_t size = static_cast<int64_t>(size_of(dtype_));
    for (uint64_t n = element_count(view()); n > 0; --n) {
      int64_t at = origin_;
      for (size_t i = 0; i < index.size(); ++i) at += index[i] * strides_[i] * size;
      out.insert(out.end(), bytes_.begin() + at, bytes_.begin() + at + size);
      for (size_t i = index.size(); i-- > 0;) {
        if (++index[i] < shape_[i]) break;
        index[i] = 0;
      }
    }
    return out;
  }

 private:
  DType dtype_;
  std::vector<int64_t> shape_;
  std::vector<int64_t> strides_;
  int64_t origin_ = 0;
  std::vector<std::byte> bytes_;
};

}  // namespace ttap::testing
