#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "analyze/diff/blame/dataflow.h"

namespace ttap {

// One turn of one call: what went in and what came out, as positions in the list of tensors.
struct Node {
  std::vector<uint32_t> inputs = {};
  std::vector<uint32_t> outputs = {};
  uint64_t same_bits = 0;  // more inputs, which agree bit for bit though only one side has them there
  uint64_t within = 0;     // more inputs, which agree within tolerance
  uint64_t unknown = 0;    // more inputs, of which nothing can be said
  std::optional<Dataflow::Other> other = {};  // an input that is another value on the other side
  bool exact = false;                         // these are all its inputs: the recording says what the call used
  uint32_t introduced = kNoTensor;            // by a call inside this one
  double grown = 0;                           // the error that a call inside this one let grow past the tolerance
};

struct NodeKey {
  std::string_view name;
  uint32_t call;
  uint32_t turn;
  bool operator==(const NodeKey&) const = default;
};
struct NodeHash {
  size_t operator()(const NodeKey& key) const {
    return std::hash<std::string_view>()(key.name) * 31 + key.call * 4 + key.turn;
  }
};

}  // namespace ttap
