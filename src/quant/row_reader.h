#pragma once

#include <vector>

#include "core/logical_copy.h"
#include "quant/row_kernels.h"

namespace ttap {

// The rows of a tensor of f32, bf16 or f16 as f32, one after the other in any order.
class RowReader {
 public:
  // With `transposed` the columns, for which the whole tensor is turned round first. The view must have passed
  // validate() and outlive this.
  RowReader(const TensorView& view, bool transposed, const RowKernels& kernels = row_kernels());

  static Status check_dtype(DType dtype);

  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  // Valid until the next call; `buffer` has room for a row, and may not be used.
  const float* row(int64_t index, float* buffer);

 private:
  void read(int64_t index, float* out);

  LogicalCopy copy_;
  const std::byte* data_;
  DType dtype_;
  const RowKernels* kernels_;
  int64_t rows_ = 1;
  int64_t columns_ = 1;
  std::vector<uint16_t> narrow_;
  std::vector<float> turned_;
};

}  // namespace ttap
