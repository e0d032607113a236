#include "core/logical_copy.h"

#include <algorithm>
#include <cstring>

namespace ttap {
namespace {

template <size_t N>
void copy_strided(const std::byte* source, int64_t stride, uint64_t count, std::byte* target) {
  for (uint64_t i = 0; i < count; ++i, source += stride, target += N) std::memcpy(target, source, N);
}

// `count` elements of `size` bytes, `stride` bytes apart, packed into `target`.
void copy_row(const std::byte* source, int64_t stride, size_t size, uint64_t count, std::byte* target) {
  if (stride == static_cast<int64_t>(size)) {
    std::memcpy(target, source, count * size);
    return;
  }
  switch (size) {
    case 1: return copy_strided<1>(source, stride, count, target);
    case 2: return copy_strided<2>(source, stride, count, target);
    case 4: return copy_strided<4>(source, stride, count, target);
    case 8: return copy_strided<8>(source, stride, count, target);
    default: return copy_strided<16>(source, stride, count, target);
  }
}

// Rows whose neighbours lie side by side in memory, as in a transposed matrix: a cache line holds an element of each of
// `rows` rows, and is read once for all of them.
template <size_t N>
void copy_side_by_side(const std::byte* source, int64_t stride, uint64_t rows, uint64_t columns, std::byte* target) {
  for (uint64_t column = 0; column < columns; ++column, source += stride, target += N)
    for (uint64_t row = 0; row < rows; ++row) std::memcpy(target + row * columns * N, source + row * N, N);
}

void copy_rows_side_by_side(const std::byte* source, int64_t stride, size_t size, uint64_t rows, uint64_t columns,
                            std::byte* target) {
  switch (size) {
    case 1: return copy_side_by_side<1>(source, stride, rows, columns, target);
    case 2: return copy_side_by_side<2>(source, stride, rows, columns, target);
    case 4: return copy_side_by_side<4>(source, stride, rows, columns, target);
    case 8: return copy_side_by_side<8>(source, stride, rows, columns, target);
    default: return copy_side_by_side<16>(source, stride, rows, columns, target);
  }
}

constexpr uint64_t kCacheLine = 64;

}  // namespace

LogicalCopy::LogicalCopy(const TensorView& view)
    : data_(static_cast<const std::byte*>(view.data)),
      element_size_(size_of(view.dtype)),
      elements_(element_count(view)),
      contiguous_(is_contiguous(view)) {
  if (contiguous_) return;
  for (size_t i = 0; i < view.ndim(); ++i) {
    if (view.shape[i] == 1) continue;
    const int64_t stride = view.strides[i] * static_cast<int64_t>(element_size_);
    if (ndim_ > 0 && strides_[ndim_ - 1] == stride * view.shape[i]) {
      shape_[ndim_ - 1] *= view.shape[i];
      strides_[ndim_ - 1] = stride;
    } else {
      shape_[ndim_] = view.shape[i];
      strides_[ndim_] = stride;
      ++ndim_;
    }
  }
}

void LogicalCopy::copy(uint64_t first, uint64_t count, void* target) const {
  TTAP_CHECK(first <= elements_ && count <= elements_ - first);
  if (count == 0) return;
  auto* out = static_cast<std::byte*>(target);
  if (contiguous_) {
    std::memcpy(out, data_ + first * element_size_, count * element_size_);
    return;
  }
  std::array<int64_t, kMaxDims> index;
  const std::byte* source = data_;
  uint64_t rest = first;
  for (size_t i = ndim_; i-- > 0;) {
    index[i] = static_cast<int64_t>(rest % static_cast<uint64_t>(shape_[i]));
    rest /= static_cast<uint64_t>(shape_[i]);
    source += index[i] * strides_[i];
  }
  const size_t inner = ndim_ - 1;
  const auto columns = static_cast<uint64_t>(shape_[inner]);
  const bool side_by_side = inner > 0 && strides_[inner - 1] == static_cast<int64_t>(element_size_);
  while (true) {
    uint64_t rows = 1;
    uint64_t run = std::min<uint64_t>(count, columns - static_cast<uint64_t>(index[inner]));
    if (side_by_side && index[inner] == 0 && count >= 2 * columns) {
      rows = std::min(
          {kCacheLine / element_size_, count / columns, static_cast<uint64_t>(shape_[inner - 1] - index[inner - 1])});
      run = rows * columns;
    }
    if (rows > 1) {
      copy_rows_side_by_side(source, strides_[inner], element_size_, rows, columns, out);
    } else {
      copy_row(source, strides_[inner], element_size_, run, out);
    }
    out += run * element_size_;
    count -= run;
    if (count == 0) return;
    // On to the next rows: the inner index returns to zero and the outer ones count up.
    source -= index[inner] * strides_[inner];
    index[inner] = 0;
    auto step = static_cast<int64_t>(rows);
    for (size_t i = inner; i-- > 0; step = 1) {
      source += step * strides_[i];
      if ((index[i] += step) < shape_[i]) break;
      source -= index[i] * strides_[i];
      index[i] = 0;
    }
  }
}

}  // namespace ttap
