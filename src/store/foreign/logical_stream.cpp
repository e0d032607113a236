#include "store/foreign/logical_stream.h"

#include <algorithm>
#include <vector>

#include "core/element.h"
#include "core/logical_copy.h"

namespace ttap {
namespace {

constexpr uint64_t kPieceBytes = 1 << 20;

}  // namespace

Status stream_logical(const TensorView& view, const ByteSink& sink) {
  const LogicalCopy logical(view);
  const size_t size = logical.element_size();
  if (logical.elements() == 0) return {};
  if (logical.contiguous())
    return sink({static_cast<const std::byte*>(view.data), static_cast<size_t>(logical.elements() * size)});
  const uint64_t step = std::min<uint64_t>(logical.elements(), kPieceBytes / size);
  std::vector<std::byte> piece(step * size);
  for (uint64_t first = 0; first < logical.elements(); first += step) {
    const uint64_t count = std::min(step, logical.elements() - first);
    logical.copy(first, count, piece.data());
    TTAP_TRY(sink(std::span(piece).first(count * size)));
  }
  return {};
}

Status stream_as_f32(const TensorView& view, const ByteSink& sink) {
  TTAP_CHECK(widens_to_f32(view.dtype));
  const size_t size = size_of(view.dtype);
  const int values = dtype_info(view.dtype).values;
  std::vector<float> wide;
  return stream_logical(view, [&](std::span<const std::byte> narrow) -> Status {
    // A contiguous view comes in one piece, which may be gigabytes.
    constexpr size_t kStep = kPieceBytes / sizeof(float);
    for (size_t begin = 0; begin < narrow.size(); begin += kStep * size) {
      const auto part = narrow.subspan(begin, std::min(kStep * size, narrow.size() - begin));
      wide.clear();
      for (size_t i = 0; i < part.size(); i += size)
        for (int v = 0; v < values; ++v) wide.push_back(static_cast<float>(value_of(view.dtype, part.data() + i, v)));
      TTAP_TRY(sink(std::as_bytes(std::span(wide))));
    }
    return {};
  });
}

}  // namespace ttap
