#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "analyze/diff/match/name_map.h"
#include "analyze/diff/match/ops/side_ops.h"
#include "analyze/diff/result/match.h"

namespace ttap {

struct AlignOptions {
  const NameMap* map = nullptr;
  bool structure = true;                                          // guess at what keys and map leave over
  bool nearness = true;                                           // of ops: see match_ops()
  const std::function<bool(std::string_view)>* wanted = nullptr;  // keys (of A, or of B where A has none) to look at
};

// The tensors of ops as match_ops() says, where both sides have ops (`aten::relu`); all others
// by key first, then by the map, then by their values (match_by_value()), then by structure: leftovers of the same role
// and number of elements, by the order they have between matched tensors, shape, kind, parent and what their names say.
// What it would be less sure of than kLeastConfidence (pairing.h) stays unmatched. A tensor whose key the other side
// has is never matched otherwise. Parts of quantized tensors are matched as match_parts() (quant_parts.h) says, and
// mostly with nothing. Every wanted tensor of both sides once: A's in execution order, with what only B has after the
// match (or unmatched tensor) of A that it follows in B.
std::vector<Match> align(const SideOps& a, const SideOps& b, const AlignOptions& options = {});

}  // namespace ttap
