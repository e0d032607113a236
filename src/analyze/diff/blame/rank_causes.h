#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analyze/collectives/collective_call.h"
#include "analyze/diff/result/verdict.h"
#include "analyze/diff/sides/side.h"

namespace ttap {

// One rank's pass of A against its pass of B, after find_causes().
struct RankDiff {
  uint32_t rank = 0;
  uint32_t pass = 0;  // as the report counts them
  const Side* a = nullptr;
  std::span<TensorDiff> tensors = {};
  CollectiveCalls collectives = {};  // of A
};

// Decides the cause of every result of a collective that find_causes() left unknown, by what each rank gave to it:
//   inherited   a contribution differs; the source is what made that, on the rank that gave it
//   introduced  every contribution agrees, and the result does not
//   unknown     a contribution was not compared, or the ranks do not pair; the reason names it
// `ranks` are the ranks of one pass.
void find_causes_in_other_ranks(std::vector<RankDiff> ranks);

}  // namespace ttap
