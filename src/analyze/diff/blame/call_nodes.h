#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "analyze/diff/blame/dataflow.h"
#include "analyze/diff/result/verdict.h"
#include "analyze/diff/sides/side.h"

// The calls that the compared tensors went into and came out of.
namespace ttap {

// One turn of one call: what went in and what came out, as positions in the list of tensors.
struct Node {
  std::vector<uint32_t> inputs = {};
  std::vector<uint32_t> outputs = {};
  uint64_t same_bits = 0;  // more inputs, which agree bit for bit though only one side has them there
  uint64_t within = 0;     // more inputs, which agree within tolerance
  uint64_t unknown = 0;    // more inputs, of which nothing can be said
  std::optional<Dataflow::Other> other = {};  // an input that is another value on the other side
  std::optional<DType> through = {};          // of what was computed between its inputs and it, on one side only
  bool through_sort = false;                  // some of that is the order in which something was sorted
  bool exact = false;                         // these are all its inputs: the recording says what the call used
  std::vector<uint32_t> made_inside = {};     // what calls directly inside it made
  uint32_t introduced = kNoTensor;            // by a call inside this one
  uint32_t unequal = kNoTensor;          // the first that went into or came out of a call inside it with other bits
  uint32_t made_by_code = kNoTensor;     // what its own code gave to a call inside it, and that made different
  uint32_t first_differing = kNoTensor;  // the first inside it that is known not to agree, or flipped
  bool agreed = false;                   // something that went into or came out of a call directly inside it agrees
  bool differing = false;                // something that went into or came out of a call directly inside it is
  double most_inside = 0;                // the largest relative error of what calls inside this one made
  double grown = 0;                      // the error that a call inside this one let grow past the tolerance

  uint64_t input_count() const { return inputs.size() + same_bits + within + unknown; }
};

class CallNodes {
 public:
  // `tensors` as align() orders them; all must outlive it. `strict` as for Dataflow.
  CallNodes(const Side& a, const Side& b, std::span<const TensorDiff> tensors, bool strict = false);

  const Side& a() const { return a_; }
  const Side& b() const { return b_; }
  const Dataflow& dataflow() const { return dataflow_; }

  // The tensor at a position, as A has it, or B where only B does.
  TensorRecord record_at(uint32_t i) const;
  const Side& side_of(uint32_t i) const { return tensors_[i].match.a != kNoTensor ? a_ : b_; }
  std::string key_at(uint32_t i) const { return to_string(record_at(i).key()); }
  bool is_of_op(uint32_t i) const;

  // Whether it was given to a call, or handed on by a placeholder, rather than made.
  bool came_in(uint32_t i) const { return (is_given(i) || is_handed_on(i)) && !is_seen_on_one_side(i); }
  bool is_handed_on(uint32_t i) const;
  // Whether A's record may be that of a call that uses it rather than of the one that made it.
  bool is_apart(uint32_t i) const { return is_seen_on_one_side(i) || is_op_against_module(i); }

  // The call that made the tensor at a position, with what went into it: by the uses that were recorded, else by the
  // tensors of role in. Also of a call that is apart, which no other tensor shares.
  Node& of(uint32_t i);
  // The same, by the uses alone as they are judged now; not exact where none were recorded.
  Node used_by(uint32_t i) const;
  // Another turn of its call; null when there was none.
  const Node* turn_of(uint32_t i, uint32_t turn) const;
  // Whether all that it was made of has the same bits on both sides, as made_of() tells; for the argument of a module,
  // what went into the call around that, and all that was made there before it.
  bool is_made_of_same_bits(uint32_t i);
  // What it was made of: what went into its call, and what both sides have of what calls directly inside that made
  // before it; for the argument of a module, the same of the call around that. Where that call was not recorded, the
  // argument was made, if no recorded call returned it, of what the modules below the same name were given and returned
  // before. Empty where nothing went in.
  std::vector<uint32_t> made_of(uint32_t i);
  // The call whose code made the argument of a module: the one around it. Null when there is none.
  Node* around(uint32_t i);
  std::string_view name_around(uint32_t i) const;  // its name; empty for none

  // The calls around the call of a tensor, innermost first, in the same turn: by the events where there are some, by
  // dotted names where not. They are made where nothing of them was compared.
  void for_each_around(uint32_t i, const std::function<void(Node&)>& visit);

 private:
  struct NodeKey {
    std::string_view name = {};
    uint32_t call = 1;
    uint32_t turn = 0;
    bool operator==(const NodeKey&) const = default;
  };
  struct NodeHash {
    size_t operator()(const NodeKey& key) const {
      return std::hash<std::string_view>()(key.name) * 31 + key.call * 4 + key.turn;
    }
  };
  struct HashOfBits {
    size_t operator()(const Hash128& bits) const { return bits.low; }
  };
  NodeKey key_around(uint32_t i) const;
  bool is_given(uint32_t i) const;
  void index_beside(uint32_t i);
  std::vector<uint32_t> beside(uint32_t i) const;
  bool has_same_bits(const Node& node, uint32_t but_for) const;
  void find_unequal();
  bool is_seen_on_one_side(uint32_t i) const;
  bool is_op_against_module(uint32_t i) const;
  void ask_dataflow(uint32_t i, Node& node) const;

  const Side& a_;
  const Side& b_;
  std::span<const TensorDiff> tensors_;
  Dataflow dataflow_;
  std::unordered_map<NodeKey, Node, NodeHash> nodes_;
  std::unordered_map<uint32_t, Node> apart_;  // by position
  // What the modules below a name were given and returned, by position, where no call around them was recorded.
  std::unordered_map<NodeKey, std::vector<uint32_t>, NodeHash> beside_;
  std::unordered_set<Hash128, HashOfBits> made_;  // the bits, on either side, of what those returned
};

}  // namespace ttap
