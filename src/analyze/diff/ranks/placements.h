#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ttap/result.h"

namespace ttap {

// How a tensor is spread over a mesh of ranks, as one of them recorded it.
struct Spread {
  std::vector<int64_t> mesh_shape = {};
  std::vector<int64_t> coordinate = {};      // of this rank; one per dimension of the mesh
  std::vector<std::string> placements = {};  // likewise: "Shard(0)", "Replicate()", "Partial(sum)", …
  bool outside = false;                      // the rank is no part of the mesh, and holds nothing of the tensor
};

// What placements.json says of one pass (docs/format.md): spreads by key. Entries that make no sense are left out.
Result<std::unordered_map<std::string, Spread>> read_placements(std::string_view json, uint32_t pass_number);

}  // namespace ttap
