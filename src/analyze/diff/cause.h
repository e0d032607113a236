#pragma once

#include <span>

#include "analyze/diff/verdict.h"

// Who is to blame: for each call whose outputs part, whether it made the error or was handed it.
//   introduced  what went into the call agrees and what came out does not; of calls inside each other, the innermost
//   inherited   an input parts too, or a call inside it introduced the error
//   unknown     its inputs were not recorded, and something before it has parted already
namespace ttap {

// Sets `cause`, `reason` and `source` of every tensor that parted. `tensors` as align() orders them.
void find_causes(const Side& a, const Side& b, std::span<TensorDiff> tensors);

// Whether a tensor of this role went into the call, rather than came out of it.
bool is_input(std::string_view role);

}  // namespace ttap
