#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ttap/api.h"
#include "ttap/dtype.h"
#include "ttap/result.h"

namespace ttap {

inline constexpr size_t kMaxDims = 64;

// A tensor in somebody else's memory: nothing is owned, neither the bytes nor the shape. Strides count
// elements and may be zero or negative (`data` is element [0, 0, …]); no strides means C order. A 0-d
// tensor has an empty shape and one element. A view that came from outside must pass validate() before use.
struct TensorView {
  const void* data = nullptr;
  DType dtype = DType::kF32;
  std::span<const int64_t> shape = {};
  std::span<const int64_t> strides = {};

  size_t ndim() const { return shape.size(); }
};

// Whether the view can be read at all: dimensions, overflow, null data, strides.
TTAP_API Status validate(const TensorView& view);
// The same without its data, which may be missing.
TTAP_API Status validate_layout(const TensorView& view);

// Of a view that passed validate().
TTAP_API uint64_t element_count(const TensorView& view);
inline uint64_t byte_count(const TensorView& view) { return element_count(view) * size_of(view.dtype); }
TTAP_API bool is_contiguous(const TensorView& view);

// Number of elements of a shape, or an error when it is negative, too deep, or overflows 63 bits of bytes.
TTAP_API Result<uint64_t> checked_element_count(std::span<const int64_t> shape, DType dtype);

// C order strides of a shape.
TTAP_API std::vector<int64_t> contiguous_strides(std::span<const int64_t> shape);

}  // namespace ttap
