#include "analyze/diff/blame/call_nodes.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "analyze/diff/match/ops/op_list.h"
#include "analyze/ops/event_op.h"
#include "analyze/ops/role_flow.h"

namespace ttap {
namespace {

constexpr std::ptrdiff_t kMostInside = 1024;  // that a value may be made of; older ones have long been used

// What came from outside, as an argument of an op or as a placeholder.
bool is_from_outside(const Side& side, uint32_t tensor) {
  const TensorRecord record = side.tensor(tensor);
  return flow_of(record.role).input || (record.event < side.event_count() && is_placeholder(side.event(record.event)));
}

// Whether no call was recorded around the module that it is of.
bool is_outermost(const Side& side, const TensorRecord& record) {
  if (record.event >= side.event_count()) return false;
  const EventRecord event = side.event(record.event);
  return event.kind == "module" && event.parent >= side.event_count();
}

}  // namespace

CallNodes::CallNodes(const Side& a, const Side& b, std::span<const TensorDiff> tensors, bool strict)
    : a_(a), b_(b), tensors_(tensors), dataflow_(a, b, tensors, strict) {
  for (uint32_t i = 0; i < tensors.size(); ++i) {
    const TensorRecord record = record_at(i);
    const RoleFlow flow = flow_of(record.role);
    Node& node = nodes_[{record.name, record.call, flow.turn}];
    (flow.input ? node.inputs : node.outputs).push_back(i);
    if (const NodeKey around = flow.input ? NodeKey{} : key_around(i); !around.name.empty())
      nodes_[around].made_inside.push_back(i);
    if (!strict) index_beside(i);
  }
  // Parameters that agree do not tell whether the inputs do.
  for (auto& [call, node] : nodes_)
    if (std::ranges::all_of(node.inputs,
                            [&](uint32_t k) { return is_parameter(record_at(k).role) && !differs(tensors_[k]); }))
      node.inputs.clear();
  find_unequal();
}

void CallNodes::find_unequal() {
  for (uint32_t i = 0; i < tensors_.size(); ++i) {
    const TensorDiff& tensor = tensors_[i];
    if (tensor.verdict == Verdict::kIdentical || tensor.match.a == kNoTensor || tensor.match.b == kNoTensor) continue;
    const double relative = is_given(i) || !is_measured(tensor) ? 0 : relative_error(tensor);
    for_each_around(i, [&](Node& node) {
      node.unequal = std::min(node.unequal, i);
      if (relative > node.most_inside) node.most_inside = relative;
    });
  }
}

TensorRecord CallNodes::record_at(uint32_t i) const {
  const Match& match = tensors_[i].match;
  return match.a != kNoTensor ? a_.tensor(match.a) : b_.tensor(match.b);
}

bool CallNodes::is_of_op(uint32_t i) const {
  const TensorRecord record = record_at(i);
  return record.event < side_of(i).event_count() && is_op(side_of(i).event(record.event));
}

bool CallNodes::is_given(uint32_t i) const { return flow_of(record_at(i).role).input; }

bool CallNodes::is_handed_on(uint32_t i) const {
  const TensorRecord record = record_at(i);
  return record.event < side_of(i).event_count() && is_placeholder(side_of(i).event(record.event));
}

// What a side did not see made (an op's argument from code that was not recorded) may have been made on the other.
bool CallNodes::is_seen_on_one_side(uint32_t i) const {
  const Match& match = tensors_[i].match;
  return match.a != kNoTensor && match.b != kNoTensor && match.by == MatchedBy::kPlace &&
         is_from_outside(a_, match.a) != is_from_outside(b_, match.b);
}

bool CallNodes::is_op_against_module(uint32_t i) const {
  const Match& match = tensors_[i].match;
  const auto of_op = [](const Side& side, uint32_t tensor) {
    const uint32_t event = side.tensor(tensor).event;
    return event < side.event_count() && is_op(side.event(event));
  };
  return match.a != kNoTensor && match.b != kNoTensor && of_op(a_, match.a) != of_op(b_, match.b);
}

Node& CallNodes::of(uint32_t i) {
  const TensorRecord record = record_at(i);
  Node& node = is_apart(i) ? apart_[i] : nodes_[{record.name, record.call, flow_of(record.role).turn}];
  ask_dataflow(i, node);
  return node;
}

Node CallNodes::used_by(uint32_t i) const {
  Node node;
  ask_dataflow(i, node);
  return node;
}

const Node* CallNodes::turn_of(uint32_t i, uint32_t turn) const {
  const TensorRecord record = record_at(i);
  const auto found = nodes_.find({record.name, record.call, turn});
  return found == nodes_.end() ? nullptr : &found->second;
}

bool CallNodes::has_same_bits(const Node& node, uint32_t but_for) const {
  if (node.input_count() == 0 || node.within > 0 || node.unknown > 0 || node.other) return false;
  return std::ranges::all_of(node.inputs,
                             [&](uint32_t k) { return k == but_for || tensors_[k].verdict == Verdict::kIdentical; });
}

bool CallNodes::is_made_of_same_bits(uint32_t i) {
  if (!came_in(i)) return has_same_bits(of(i), i);
  if (const auto found = beside(i); !found.empty())
    return std::ranges::all_of(found, [&](uint32_t k) { return tensors_[k].verdict == Verdict::kIdentical; });
  const Node* code = around(i);
  return code != nullptr && has_same_bits(*code, kNoTensor) && code->unequal >= i;
}

std::vector<uint32_t> CallNodes::made_of(uint32_t i) {
  if (came_in(i))
    if (auto found = beside(i); !found.empty()) return found;
  const Node* call = came_in(i) ? around(i) : &of(i);
  if (call == nullptr || call->inputs.empty()) return {};
  std::vector<uint32_t> found = call->inputs;
  if (!call->exact) {
    const auto end = std::ranges::lower_bound(call->made_inside, i);
    const auto begin = end - std::min(end - call->made_inside.begin(), kMostInside);
    std::copy_if(begin, end, std::back_inserter(found),
                 [&](uint32_t k) { return tensors_[k].match.a != kNoTensor && tensors_[k].match.b != kNoTensor; });
  }
  std::erase(found, i);
  return found;
}

// Under the dotted names around it, where the recording has none of the calls around its own.
void CallNodes::index_beside(uint32_t i) {
  const Match& match = tensors_[i].match;
  const TensorRecord record = record_at(i);
  const RoleFlow flow = flow_of(record.role);
  if (match.a == kNoTensor || match.b == kNoTensor || is_parameter(record.role) || flow.turn != 0) return;
  const TensorRecord of_a = a_.tensor(match.a), of_b = b_.tensor(match.b);
  if (!of_a.has_fingerprint || !of_b.has_fingerprint || !is_outermost(a_, of_a)) return;
  if (!flow.input) {
    made_.insert(of_a.fingerprint.hash);
    made_.insert(of_b.fingerprint.hash);
  }
  for (size_t dot = record.name.rfind('.'); dot != std::string_view::npos && dot > 0;
       dot = record.name.rfind('.', dot - 1))
    beside_[{record.name.substr(0, dot), record.call, 0}].push_back(i);
}

std::vector<uint32_t> CallNodes::beside(uint32_t i) const {
  const TensorRecord record = record_at(i);
  const size_t dot = record.name.rfind('.');
  if (dot == std::string_view::npos || tensors_[i].match.b == kNoTensor) return {};
  const auto below = beside_.find({record.name.substr(0, dot), record.call, 0});
  if (below == beside_.end() || !std::ranges::binary_search(below->second, i)) return {};
  if (made_.contains(record.fingerprint.hash) || made_.contains(b_.tensor(tensors_[i].match.b).fingerprint.hash))
    return {};
  const auto end = std::ranges::lower_bound(below->second, i);
  const auto begin = end - std::min(end - below->second.begin(), kMostInside);
  std::vector<uint32_t> found;
  std::copy_if(begin, end, std::back_inserter(found), [&](uint32_t k) { return record_at(k).name != record.name; });
  if (std::ranges::all_of(found, [&](uint32_t k) { return is_given(k); })) return {};
  return found;
}

CallNodes::NodeKey CallNodes::key_around(uint32_t i) const {
  const TensorRecord record = record_at(i);
  const Side& side = side_of(i);
  const uint32_t turn = flow_of(record.role).turn;
  if (record.event < side.event_count()) {
    const uint32_t parent = side.event(record.event).parent;
    if (parent >= side.event_count()) return {};
    return {side.event(parent).name, side.event(parent).call, turn};
  }
  const size_t dot = record.name.rfind('.');
  return dot == std::string_view::npos ? NodeKey{} : NodeKey{record.name.substr(0, dot), 1, turn};
}

Node* CallNodes::around(uint32_t i) {
  if (is_of_op(i) || is_parameter(record_at(i).role)) return nullptr;
  const NodeKey key = key_around(i);
  return key.name.empty() ? nullptr : &nodes_[key];
}

std::string_view CallNodes::name_around(uint32_t i) const { return key_around(i).name; }

// What the call was given by the uses that were recorded, in place of the tensors of role in.
void CallNodes::ask_dataflow(uint32_t i, Node& node) const {
  if (node.exact) return;
  auto inputs = dataflow_.inputs_of(i);
  if (!inputs) return;
  node.exact = true;
  node.inputs = std::move(inputs->found);
  node.same_bits = inputs->same_bits;
  node.within = inputs->within;
  node.unknown = inputs->unknown;
  node.other = inputs->other;
  node.through = inputs->through;
  node.through_sort = inputs->through_sort;
}

void CallNodes::for_each_around(uint32_t i, const std::function<void(Node&)>& visit) {
  const TensorRecord record = record_at(i);
  const Side& side = side_of(i);
  const uint32_t turn = flow_of(record.role).turn;
  if (record.event < side.event_count()) {
    // A parent is an earlier event in a sound file; the count ends a loop in any other.
    uint32_t event = side.event(record.event).parent;
    for (size_t steps = 0; event < side.event_count() && steps < side.event_count(); ++steps) {
      const EventRecord around = side.event(event);
      visit(nodes_[{around.name, around.call, turn}]);
      event = around.parent;
    }
    return;
  }
  for (size_t dot = record.name.rfind('.'); dot != std::string_view::npos && dot > 0;
       dot = record.name.rfind('.', dot - 1))
    visit(nodes_[{record.name.substr(0, dot), 1, turn}]);
}

}  // namespace ttap
