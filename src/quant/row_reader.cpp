#include "quant/row_reader.h"

#include <algorithm>
#include <string>

namespace ttap {

Status RowReader::check_dtype(DType dtype) {
  if (dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16) return {};
  return Error{ErrorCode::kUnsupported,
               "a tensor of " + std::string(dtype_name(dtype)) + " is not quantized; f32, bf16 and f16 are"};
}

RowReader::RowReader(const TensorView& view, bool transposed, const RowKernels& kernels)
    : copy_(view), data_(static_cast<const std::byte*>(view.data)), dtype_(view.dtype), kernels_(&kernels) {
  for (size_t i = 0; i + 1 < view.ndim(); ++i) rows_ *= view.shape[i];
  if (view.ndim() > 0) columns_ = view.shape.back();
  if (!transposed) return;
  turned_.resize(static_cast<size_t>(rows_ * columns_));
  std::vector<float> buffer(static_cast<size_t>(columns_));
  for (int64_t i = 0; i < rows_; ++i) {
    read(i, buffer.data());
    for (int64_t j = 0; j < columns_; ++j) turned_[static_cast<size_t>(j * rows_ + i)] = buffer[static_cast<size_t>(j)];
  }
  std::swap(rows_, columns_);
}

void RowReader::read(int64_t index, float* out) {
  const auto count = static_cast<uint64_t>(columns_);
  const uint64_t first = static_cast<uint64_t>(index) * count;
  if (dtype_ == DType::kF32) {
    copy_.copy(first, count, out);
    return;
  }
  narrow_.resize(count);
  copy_.copy(first, count, narrow_.data());
  (dtype_ == DType::kBF16 ? kernels_->from_bf16 : kernels_->from_f16)(narrow_.data(), count, out);
}

const float* RowReader::row(int64_t index, float* buffer) {
  const auto first = static_cast<size_t>(index * columns_);
  if (!turned_.empty()) return turned_.data() + first;
  if (copy_.contiguous() && dtype_ == DType::kF32 && reinterpret_cast<uintptr_t>(data_) % alignof(float) == 0)
    return reinterpret_cast<const float*>(data_) + first;
  read(index, buffer);
  return buffer;
}

}  // namespace ttap
