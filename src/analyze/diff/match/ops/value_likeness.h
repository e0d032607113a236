#pragma once

#include "ttap/record.h"

// What the statistics of two values say of whether they are one, where the bits are not the same.
namespace ttap {

// How far apart they are, beside their size: 0 for the same, 1 and more for others. Infinite where nothing is known.
double distance_of(const TensorRecord& a, const TensorRecord& b);

// Whether they may be one value: that is no more than rounding makes, with room for a small fault. Of integers and
// masks only the bits can tell.
bool is_near(const TensorRecord& a, const TensorRecord& b);

// Whether it is no more than rounding makes of one value.
bool is_rounded(const TensorRecord& a, const TensorRecord& b);

// Whether they hold the same values in another order, as a tensor and its transpose do.
bool is_reordered(const TensorRecord& a, const TensorRecord& b);

// Whether they lie in memory in the same order: in another one, an op may take another way to the same values.
bool is_laid_out_alike(const TensorRecord& a, const TensorRecord& b);

}  // namespace ttap
