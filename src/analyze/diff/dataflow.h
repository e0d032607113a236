#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_set>
#include <vector>

#include "analyze/diff/verdict.h"

namespace ttap {

// What a call was given, as the uses of its event say, instead of what ran before it.
class Dataflow {
 public:
  // `tensors` as align() orders them; all must outlive it.
  Dataflow(const Side& a, const Side& b, std::span<const TensorDiff> tensors);

  struct Inputs {
    std::vector<uint32_t> found = {};  // positions in `tensors` of those that both sides have, each once
    uint32_t same_bits =
        0;                 // only one side has it there, but the other has the same bits, or of a weight its transpose
    uint32_t unknown = 0;  // not recorded, or from outside and on one side only
  };
  // The arguments of the call that made the tensor at `position`. One without a counterpart (a view, an op that the
  // other side fused) is looked through: what its own call was given counts in its place. Nothing when neither side
  // says what the call used.
  std::optional<Inputs> inputs_of(uint32_t position) const;

 private:
  struct HashOfBits {
    size_t operator()(const Hash128& hash) const { return hash.low; }
  };
  using Bits = std::unordered_set<Hash128, HashOfBits>;
  struct Half {
    const Side& side;
    std::vector<uint32_t> position_of;   // per tensor record; kNoTensor where it is not compared
    Bits bits;                           // of all its values
    std::unordered_set<uint64_t> given;  // content_of() what came from outside
  };
  static bool tells(const Half& half, uint32_t tensor);
  static bool is_of_op(const Half& half, uint32_t tensor);
  static bool is_from_outside(const Half& half, const TensorRecord& record);
  void collect(const Half& half, const Half& other, uint32_t tensor, Inputs& inputs) const;

  std::span<const TensorDiff> tensors_;
  Half a_, b_;
};

}  // namespace ttap
