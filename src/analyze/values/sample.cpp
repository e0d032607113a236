#include "analyze/values/sample.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

namespace ttap {
namespace {

std::vector<int64_t> edges(int64_t length, size_t edge) {
  const auto side = static_cast<int64_t>(edge);
  std::vector<int64_t> shown;
  for (int64_t i = 0; i < length; ++i) {
    if (i == side && length > 2 * side) i = length - side;
    shown.push_back(i);
  }
  return shown;
}

}  // namespace

Sample sample(const TensorView& view, size_t edge_rows, size_t edge_columns) {
  TTAP_CHECK(edge_rows >= 1 && edge_columns >= 1);
  Sample result;
  result.parts = dtype_info(view.dtype).values;
  const size_t ndim = view.ndim();
  if (ndim > 2) result.fixed.assign(ndim - 2, 0);
  result.rows = ndim >= 2 ? edges(view.shape[ndim - 2], edge_rows) : std::vector<int64_t>{0};
  result.columns = ndim >= 1 ? edges(view.shape[ndim - 1], edge_columns) : std::vector<int64_t>{0};
  if (element_count(view) == 0) return result;

  const std::vector<int64_t> own = view.strides.empty() ? contiguous_strides(view.shape) : std::vector<int64_t>{};
  const std::span<const int64_t> strides = view.strides.empty() ? std::span<const int64_t>(own) : view.strides;
  const int64_t row_stride = ndim >= 2 ? strides[ndim - 2] : 0;
  const int64_t column_stride = ndim >= 1 ? strides[ndim - 1] : 0;
  const auto size = static_cast<int64_t>(size_of(view.dtype));
  for (int64_t row : result.rows)
    for (int64_t column : result.columns) {
      const auto* element =
          static_cast<const std::byte*>(view.data) + (row * row_stride + column * column_stride) * size;
      for (int part = 0; part < result.parts; ++part) result.values.push_back(number_at(view.dtype, element, part));
    }
  return result;
}

Result<TensorView> select(const TensorView& view, std::span<const int64_t> index) {
  TTAP_CHECK(view.strides.size() == view.shape.size());
  if (index.size() > view.ndim())
    return Error{
        .code = ErrorCode::kInvalidArgument,
        .message = fmt::format("{} numbers in the index of a tensor with {} dimensions", index.size(), view.ndim()),
        .hint = fmt::format("its shape is [{}]", fmt::join(view.shape, ", "))};
  int64_t offset = 0;
  for (size_t i = 0; i < index.size(); ++i) {
    const int64_t at = index[i] < 0 ? index[i] + view.shape[i] : index[i];
    if (at < 0 || at >= view.shape[i])
      return Error{.code = ErrorCode::kInvalidArgument,
                   .message = fmt::format("index {} is outside dimension {}, which has {}", index[i], i, view.shape[i]),
                   .hint = fmt::format("its shape is [{}]", fmt::join(view.shape, ", "))};
    offset += at * view.strides[i];
  }
  return TensorView{static_cast<const std::byte*>(view.data) + offset * static_cast<int64_t>(size_of(view.dtype)),
                    view.dtype, view.shape.subspan(index.size()), view.strides.subspan(index.size())};
}

}  // namespace ttap
