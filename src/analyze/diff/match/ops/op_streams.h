#pragma once

#include <cstdint>
#include <vector>

#include "analyze/diff/match/ops/op_list.h"
#include "analyze/diff/sides/side.h"

namespace ttap {

// Which ops run in one line: those of the same module, forward and backward apart. A module that only one side has
// (compiled code knows none) counts as the nearest one around it that both have, or as none.
struct OpStreams {
  // Per stream its ops, in execution order.
  std::vector<std::vector<uint32_t>> a, b;

  // Per op the number of its stream.
  static std::vector<uint32_t> numbers_of(const std::vector<std::vector<uint32_t>>& streams, size_t op_count);
};
OpStreams find_streams(const Side& a, const OpList& ops_a, const Side& b, const OpList& ops_b);

}  // namespace ttap
