#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "analyze/diff/result/match.h"
#include "analyze/diff/sides/side.h"

// The ops of one side, with what their names, values and uses say. Texts, shapes and bits are told apart by 64 bits.
namespace ttap {

inline constexpr uint32_t kNoOp = 0xFFFFFFFF;

// One call of an operator or kernel, or one node of a graph, that has tensor records.
struct Op {
  uint32_t event = 0;
  uint32_t first_value = 0;  // OpList::values()
  uint32_t value_count = 0;
  uint32_t first_outside = 0;  // OpList::outside()
  uint32_t outside_count = 0;
  uint32_t first_input = 0;  // OpList::inputs()
  uint32_t input_count = 0;
  uint32_t first_part = 0;  // OpList::parts()
  uint32_t part_count = 0;
  uint64_t name = 0;      // of the operator, without library, overload and what says that it works in place
  uint64_t overload = 0;  // of the whole operator
  uint64_t shape = 0;     // of all its values
  uint64_t dtype = 0;
  std::string_view scope = {};
  bool backward = false;
  bool kernel = false;
  bool given = false;      // a node that hands on what came from outside: its records count as that
  bool same = false;       // its one value is its first argument in every way: detach, clone
  bool undefined = false;  // its value is whatever the memory held: empty
  bool constant = false;   // its value depends on none of its arguments' values: ones_like
  bool casts = false;      // its one value is its first argument in another dtype, perhaps rounded
  bool copies = false;     // its value has the bits of an input, or its name says that it leaves values alone
};

class OpList {
 public:
  explicit OpList(const Side& side);

  std::span<const Op> ops() const { return ops_; }
  size_t tensor_count() const { return op_of_.size(); }
  // Tensor records of an op: what it made (roles out and after), and what it was given from outside (role in).
  std::span<const uint32_t> values(const Op& op) const {
    return std::span(values_).subspan(op.first_value, op.value_count);
  }
  std::span<const uint32_t> outside(const Op& op) const {
    return std::span(outside_).subspan(op.first_outside, op.outside_count);
  }
  // The records that hold its arguments, in their order; kNoTensor where the value was not recorded.
  std::span<const uint32_t> inputs(const Op& op) const {
    return std::span(inputs_).subspan(op.first_input, op.input_count);
  }
  // The paths of those arguments, as hashes.
  std::span<const uint64_t> input_paths(const Op& op) const {
    return std::span(input_paths_).subspan(op.first_input, op.input_count);
  }
  // The records of what other calls wrote to the bytes of its arguments, where no call made those.
  std::span<const uint32_t> parts(const Op& op) const {
    return std::span(parts_).subspan(op.first_part, op.part_count);
  }
  // The op that a tensor record belongs to; kNoOp for one of a module or probe.
  uint32_t op_of(uint32_t tensor) const { return op_of_[tensor]; }
  // Which of its op's values a record is; kNoTensor for one of role in.
  uint32_t position_of(uint32_t tensor) const { return position_of_[tensor]; }
  // Stands for dtype and bits; 0 when they are not known, mean nothing (is_for_results()), or there is no element.
  uint64_t bits(uint32_t tensor) const { return bits_[tensor]; }
  uint64_t shape(uint32_t tensor) const { return shape_[tensor]; }
  uint64_t elements(uint32_t tensor) const { return elements_[tensor]; }
  uint64_t content(uint32_t tensor) const { return content_[tensor]; }  // content_of()
  // Whether it holds numbers with a fraction, or what stands for some; else it is a mask, an index or a count.
  bool is_real(uint32_t tensor) const { return real_[tensor]; }
  // Whether other tensors are likely to have these bits by chance: one element, or all the same.
  bool is_plain(uint32_t tensor) const { return plain_[tensor]; }

 private:
  void add_node(const Side& side, uint32_t event);
  void add_call(const EventRecord& event, uint32_t index);
  void describe_tensors(const Side& side, std::span<const uint32_t> op_of_event);
  void describe_uses(const Side& side);

  std::vector<Op> ops_;
  std::unordered_set<std::string> texts_;  // the scopes of nodes
  std::vector<uint32_t> values_, outside_, inputs_, parts_;
  std::vector<uint32_t> op_of_, position_of_;
  std::vector<uint64_t> bits_, shape_, elements_, content_, input_paths_;
  std::vector<bool> plain_, real_;
};

// Whether an event is the call of an operator, by kind and name, or a node of a graph.
bool is_op(const EventRecord& event);
bool has_ops(const Side& side);

// Stands for the values of a tensor in any order: a weight and its transpose have the same. 0 where there are too few
// of them to tell, or no statistics.
uint64_t content_of(const TensorRecord& record);

// Whether the results of an op are whatever the memory held (aten::empty), so that nothing is to be said of them.
bool leaves_undefined(const EventRecord& event);

// Whether an argument is there to be written to (`out=`, `out_ptr0`), so that what it held before means nothing.
bool is_for_results(std::string_view path);

// Whether an event is a graph's placeholder: it computes nothing and stands for a value from outside.
bool is_placeholder(const EventRecord& event);

// The hash by which names are told apart in Op::name: `add`, `add_` and `_add` are the same.
uint64_t operator_name_hash(std::string_view name);

}  // namespace ttap
