#pragma once

#include <string>

#include "ttap/run.h"

namespace ttap {

// A call on one line, its tensors by their types: `aten::add.Tensor(f32[2, 4], f32[4], alpha=2) -> f32[2, 4]`.
// Printable. A tensor of which nothing was recorded is `t`.
std::string plain_call(const Pass& pass, uint32_t event);

}  // namespace ttap
