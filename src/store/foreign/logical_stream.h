#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "ttap/result.h"
#include "ttap/tensor_view.h"

namespace ttap {

using ByteSink = std::function<Status(std::span<const std::byte>)>;

// Hands the logical elements of a view, C order, to `sink`: a contiguous view in one uncopied piece, any
// other in pieces of at most 1 MiB. Stops at the first error of the sink. The view must have passed validate().
Status stream_logical(const TensorView& view, const ByteSink& sink);

// The same with every value widened to float32, which is exact for what widens_to_f32(); a packed f4 element
// gives two values.
Status stream_as_f32(const TensorView& view, const ByteSink& sink);

}  // namespace ttap
