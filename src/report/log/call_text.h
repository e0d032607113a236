#pragma once

#include <string>
#include <string_view>

#include "analyze/diff/sides/side.h"

namespace ttap {

// `aten::add.Tensor(f32[2, 3], f32[3], alpha=2) -> f32[2, 3]`; empty where the recording does not say how the call
// ended.
std::string call_text(const Side& side, uint32_t event);

// The innermost frame of a stack that is the program's own, or else the innermost: `FILE:LINE in FUNCTION: CODE`.
std::string user_line(std::string_view stack);

}  // namespace ttap
