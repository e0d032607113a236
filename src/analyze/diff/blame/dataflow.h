#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "analyze/diff/blame/compared_side.h"

namespace ttap {

// What a call was given, as the uses of its event say, instead of what ran before it.
class Dataflow {
 public:
  // `tensors` as align() orders them; all must outlive it. With `strict`, of an argument that was not compared nothing
  // is known: neither that it is rounding, as its statistics say, nor that a kernel only writes to it, as its name
  // does.
  Dataflow(const Side& a, const Side& b, std::span<const TensorDiff> tensors, bool strict = false);

  // An argument that holds another value on the other side, though all that both sides have of it agrees.
  struct Other {
    std::string_view path = {};  // which argument
    uint32_t a = kNoTensor;      // tensor records
    uint32_t b = kNoTensor;
    uint32_t only = kNoTensor;  // position in `tensors` of what made it, where only one side has that
    bool replaced = false;      // both sides have the value that one of them gives; the other gives what it made of it
  };
  struct Inputs {
    std::vector<uint32_t> found = {};  // positions in `tensors` of those that both sides have, each once
    // Only one side has it there, but the other has the same bits, or of a weight its transpose.
    uint32_t same_bits = 0;
    uint32_t within = 0;   // it is not compared, but by the statistics it differs by no more than rounding
    uint32_t unknown = 0;  // not recorded, or from outside and on one side only
    std::optional<Other> other = {};
    // What was computed between these and the call, and that only one side has: the coarsest dtype of it, and whether
    // it has to do with the order in which something was sorted.
    std::optional<DType> through = {};
    bool through_sort = false;
  };
  // The arguments of the call that made the tensor at `position`. Of two calls of the same operator they are held
  // against each other one by one. One without a counterpart (a view, an op that the other side fused) is looked
  // through: what its own call was given counts in its place. Nothing when neither side says what the call used.
  std::optional<Inputs> inputs_of(uint32_t position) const;
  // Positions of what calls wrote into the bytes of an argument that nothing else made.
  std::vector<uint32_t> parts_of(uint32_t position) const;

 private:
  struct Values : ComparedSide {
    using ComparedSide::ComparedSide;
    std::unordered_set<Hash128> bits = {};                       // of all its values
    std::unordered_set<uint64_t> given = {};                     // content_of() what came from outside
    std::unordered_map<Hash128, uint32_t> made_by_kernels = {};  // records
    std::unordered_map<Hash128, uint32_t> of_modules = {};       // positions of what both sides' modules returned
  };
  // One argument of a call.
  struct Argument {
    std::string_view path = {};
    uint32_t record = kNoTensor;
    uint32_t event = kNoEvent;
  };
  static bool tells(const Values& of, uint32_t tensor);
  static bool is_of_op(const Values& of, uint32_t tensor);
  static bool is_from_outside(const Values& of, const TensorRecord& record);
  bool is_paired(uint32_t position) const;
  std::vector<Argument> arguments_of(const Values& of, uint32_t event) const;
  static uint32_t buffer_of(const Values& of, uint32_t record);
  void collect(const Values& of, const Values& other, std::vector<Argument> arguments, Inputs& inputs) const;
  static void merge(Inputs& into, Inputs from);
  static void look_through(const Values& of, const TensorRecord& record, Inputs& inputs);
  static void add_looked_through(Inputs& into, const Inputs& from);
  std::optional<Inputs> one_by_one(uint32_t a, uint32_t b) const;
  bool are_one(const Argument& x, const Argument& y) const;
  void compare(const Argument& x, const Argument& y, bool others_agree, Inputs& inputs) const;
  bool is_replaced(const Values& of, uint32_t given, const Values& other, uint32_t in_place, const Inputs& made_of,
                   bool others_agree) const;
  bool has_same_bits(const Argument& x, const Argument& y) const;
  uint32_t differing_result(const Argument& x, const Argument& y) const;
  uint32_t only_maker(const Values& of, uint32_t record) const;
  uint32_t first_only_maker(const Values& of, uint32_t record) const;
  static std::vector<uint32_t> part_records(const Values& of, uint32_t record);

  std::span<const TensorDiff> tensors_;
  Values a_, b_;
  const bool strict_;
};

}  // namespace ttap
