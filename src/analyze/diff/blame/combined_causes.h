#pragma once

#include <span>

#include "analyze/diff/result/verdict.h"
#include "analyze/diff/sides/side.h"

namespace ttap {

// A value that one side has as two is made of both: where the second differs already, it inherited the error from that.
void inherit_from_second(const Side& a, const Side& b, std::span<TensorDiff> tensors);

}  // namespace ttap
