#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analyze/diff/match/ops/op_list.h"

// What tells an op from all others of its side whatever its name and place, so that it can be found on the other side.
namespace ttap {

// What is known about the ops of a side beside the list itself.
struct OpKnown {
  std::vector<bool> shared;     // per tensor: the other side has a value with these bits
  std::vector<bool> weighs;     // per tensor from outside: the other side was given these values, in whatever order
  std::vector<uint32_t> joins;  // per tensor: the tensor of A in its pair; kNoTensor where it has no counterpart
  std::span<const uint32_t> streams;  // per op: OpStreams
};

// Per op; 0 where there is nothing to go by.
struct OpKeys {
  std::vector<uint64_t> dataflow;  // the operator, and where all its arguments came from, back to what both sides share
  std::vector<uint64_t> made;      // the operator and the bits it made, where the other side has them
  // The operator and those of its arguments that the other side has; where it has not all of them, its stream too.
  std::vector<uint64_t> given;
  std::vector<uint64_t> outside;  // the same of those that came from outside, as weights do
  std::vector<uint64_t> weights;  // all that came from outside, transposed or not, whatever the operator; of no kernel
  std::vector<uint64_t> place;    // all its arguments, and the shape of what it made of them, whatever the operator
};
OpKeys keys_of(const OpList& list, const OpKnown& known);

}  // namespace ttap
