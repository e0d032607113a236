#pragma once

#include <cstdint>
#include <span>

#include "analyze/diff/match/pairing.h"
#include "analyze/diff/sides/side.h"

namespace ttap {

// Of results without a partner: those whose columns (of the last axis) are columns of a wider result of the other side,
// in whatever order: concatenated, interleaved, by head. All but a few of its columns must be found; where all other
// parts of the wider one are known, what is left of it is the one result next to those that has this width.
// `values_a` and `values_b` are tensors of role out, in execution order.
void match_columns(const Side& a, std::span<const uint32_t> values_a, const Side& b, std::span<const uint32_t> values_b,
                   Pairing& pairing);

}  // namespace ttap
