#pragma once

#include <span>

#include "analyze/diff/blame/blame_options.h"
#include "analyze/diff/result/verdict.h"
#include "analyze/diff/sides/settings.h"
#include "analyze/diff/sides/side.h"

// Which call is to blame: for each call whose outputs differ, whether it made the error or was given it.
//   introduced  what went into the call agrees and what came out does not; of calls inside each other, the innermost
//   inherited   an input differs too, or a call inside it introduced the error
//   unknown     its inputs were not recorded, and something before it differs already
namespace ttap {

// Where the recording says what a call used (ops), that decides; else what was recorded as its inputs, and the order of
// calls inside each other. An argument that was not recorded, or has no counterpart, counts as those of the op that
// made it.
//
// Sets `cause`, `reason` and `source` of every tensor that differs. `tensors` as align() orders them. What only
// statistics tell of an op counts as within tolerance when they differ by no more than rounding, and rounding is to be
// expected: nothing that came in differs, and either that differs by rounding itself, or it is another operator or
// kernel. A sound op that is given the same bits makes the same bits.
// With options.strict such statistics stay inconclusive.
void find_causes(const Side& a, const Side& b, std::span<const SettingDiff> settings, const BlameOptions& options,
                 std::span<TensorDiff> tensors);

// Whether a tensor of this role went into the call, rather than came out of it.
bool is_input(std::string_view role);

}  // namespace ttap
