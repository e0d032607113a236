#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "analyze/diff/align.h"
#include "analyze/diff/verdict.h"

// Who is to blame: for each event whose outputs part, whether it made the error or was handed it.
namespace ttap {

// Sets `cause`, `reason` and `source` of every tensor whose verdict counts as parted. In execution order of A.
void find_causes(const Side& a, const Side& b, std::span<TensorDiff> tensors);

}  // namespace ttap
