#pragma once

#include <cstdint>
#include <vector>

#include "analyze/diff/result/verdict.h"
#include "analyze/diff/sides/side.h"

namespace ttap {

// One side, and where its tensors stand among those that were compared.
struct ComparedSide {
  ComparedSide(const Side& its_side, std::span<const TensorDiff> tensors, uint32_t Match::*record)
      : side(its_side), position_of(positions_of(tensors, record, its_side.tensor_count())) {}

  const Side& side;
  std::vector<uint32_t> position_of;  // per tensor record; kNoTensor: not compared
};

}  // namespace ttap
