#pragma once

#include <functional>
#include <span>

#include "analyze/diff/judge/compare_pair.h"

namespace ttap {

// compare_pair() for all of them, on `threads` threads (0: one per core). Pairs with the same bits on both sides are
// measured once: a decoder hands its cache to every layer. `progress` is called from one thread at a time with bytes
// done and bytes in all.
void compare_pairs(const PairContext& context, std::span<TensorDiff> tensors, unsigned threads,
                   const std::function<void(uint64_t, uint64_t)>& progress = {});

}  // namespace ttap
