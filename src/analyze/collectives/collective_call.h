#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "analyze/ops/event_op.h"
#include "analyze/ops/op_facts.h"
#include "analyze/ops/role_flow.h"
#include "ttap/api.h"
#include "ttap/record.h"

// Collectives, sends and receives as one rank recorded them. `Source` is a Pass or a Side.
namespace ttap {

// Whose values reach the result of a collective.
enum class Contributors : uint8_t { kAll, kRoot, kNone };

struct CollectiveCall {
  uint32_t event = kNoEvent;
  std::string op = {};       // c10d::allreduce_
  std::string group = {};    // as the recording names it: `0 (default_pg)`; empty: not recorded
  uint32_t group_rank = 0;   // of this process, in the group
  uint32_t group_size = 0;   // how many ranks the group has
  std::string channel = {};  // calls of one channel are numbered together: the group; of a send also both ends and tag
  uint32_t number = 0;       // its place in the channel, from 1, in the order of the pass
  Contributors contributors = Contributors::kAll;
  uint32_t root = 0;                  // kRoot: the group rank that gives; of a receive the sender
  std::optional<uint32_t> peer = {};  // of a send or receive: the group rank at the other end
  bool result_per_rank = false;       // its k-th result is what group rank k gave
  bool argument_per_rank = false;     // its k-th argument goes to group rank k

  bool is_point_to_point() const { return peer.has_value(); }
};

// What an event exchanges with other ranks; without `number`. Nothing for every other event.
std::optional<CollectiveCall> collective_of(const EventRecord& event);

// "its 3rd", "1st".
std::string ordinal(uint32_t number);
// `c10d::allreduce_ of group 0 (default_pg), its 3rd`; of a send and its receive, with both ends.
TTAP_API std::string call_text(const CollectiveCall& call);

// Those of a pass in execution order, numbered. One that another runs (autograd, a compiled graph) is not counted
// twice.
class CollectiveCalls {
 public:
  CollectiveCalls() = default;
  template <class Source>
  explicit CollectiveCalls(const Source& source) {
    for (uint32_t i = 0; i < source.event_count(); ++i) {
      const EventRecord event = source.event(i);
      if (!is_call_of_operator(event)) continue;
      std::optional<CollectiveCall> call = collective_of(event);
      if (!call) continue;
      uint32_t outer = event.parent;
      while (outer < i && !by_event_.contains(outer)) outer = source.event(outer).parent;
      if (outer < i) {
        by_event_.emplace(i, by_event_.at(outer));
        continue;
      }
      call->event = i;
      call->number = ++counts_[call->channel];
      by_event_.emplace(i, all_.size());
      all_.push_back(std::move(*call));
    }
  }

  // Events have other numbers: `number_of` has the new one of each, kNoEvent for one that is left out.
  template <class NumberOf>
  void renumber(const NumberOf& number_of) {
    for (CollectiveCall& call : all_) call.event = number_of(call.event);
    std::unordered_map<uint32_t, size_t> by_event;
    for (const auto& [event, call] : by_event_)
      if (const uint32_t number = number_of(event); number != kNoEvent) by_event.emplace(number, call);
    by_event_ = std::move(by_event);
  }

  const std::vector<CollectiveCall>& all() const { return all_; }
  // The one that an event is, or is a part of; null for none.
  const CollectiveCall* at(uint32_t event) const {
    const auto found = by_event_.find(event);
    return found == by_event_.end() ? nullptr : &all_[found->second];
  }

 private:
  std::vector<CollectiveCall> all_;
  std::unordered_map<uint32_t, size_t> by_event_;
  std::unordered_map<std::string, uint32_t> counts_;
};

// A result of a collective: the path tells which.
struct CollectiveResult {
  uint32_t event = kNoEvent;  // of the call
  std::string path = {};
};

// Whether a record says nothing of its values.
inline bool is_without_value(const TensorRecord& record) { return !record.has_fingerprint && !record.has_bytes; }

// The collectives whose results a record holds: of the call itself, of the call that waits for it, perhaps through a
// view, or of a call that was given what a collective wrote and the program had waited for. Nothing where its value
// came another way.
template <class Source>
std::vector<CollectiveResult> results_behind(const Source& source, const CollectiveCalls& calls, uint32_t record) {
  std::vector<CollectiveResult> found;
  if (calls.all().empty()) return found;
  std::vector<uint32_t> open = {record};
  std::unordered_set<uint32_t> seen;
  while (!open.empty()) {
    const uint32_t number = open.back();
    open.pop_back();
    const TensorRecord tensor = source.tensor(number);
    if (tensor.event >= source.event_count() || !seen.insert(number).second) continue;
    const EventRecord event = source.event(tensor.event);
    // A value that was made before and that no record holds.
    const auto follow = [&](uint32_t other) {
      if (other < number && is_without_value(source.tensor(other))) open.push_back(other);
    };
    if (goes_in(tensor.role)) {
      for (uint32_t i = event.use_count; i-- > 0;) {
        const UseRecord use = source.use(tensor.event, i);
        if (use.role != "part") break;
        if (use.path == tensor.path) follow(use.record);
      }
    } else if (const CollectiveCall* call = calls.at(tensor.event)) {
      found.push_back({call->event, std::string(tensor.path)});
    } else if (const std::string op = operator_of(event); is_same_op(op) || is_view_op(op)) {
      uint32_t argument = kNoNumber;
      for (uint32_t i = 0; i < event.use_count && argument == kNoNumber; ++i)
        if (const UseRecord use = source.use(tensor.event, i); use.role == "in") argument = use.record;
      follow(argument);
    }
  }
  return found;
}

// One tensor that a rank gave to a collective.
struct ContributedTensor {
  std::string path = {};
  uint32_t record = kNoNumber;  // kNoNumber: its value was not recorded
};

// Whether a group rank gives anything to result `path` of a collective.
bool may_contribute(const CollectiveCall& call, uint32_t group_rank, std::string_view path);
// Whether an argument of a call is part of what it gives to result `path` of group rank `receiver`.
bool contributes(const CollectiveCall& call, const UseRecord& use, uint32_t receiver, std::string_view path);

// What the rank of `source` gave with `call` to a result.
template <class Source>
std::vector<ContributedTensor> contribution_of(const Source& source, const CollectiveCall& call, uint32_t receiver,
                                               std::string_view path) {
  std::vector<ContributedTensor> all, same_path;
  if (call.event >= source.event_count()) return all;
  const EventRecord event = source.event(call.event);
  for (uint32_t i = 0; i < event.use_count; ++i) {
    const UseRecord use = source.use(call.event, i);
    if (use.role != "in" || !contributes(call, use, receiver, path)) continue;
    all.push_back({std::string(use.path), use.record});
    // Of a call in place, the result is made of the arguments in the same place.
    if (use.written && use.path == path) same_path.push_back(all.back());
  }
  return same_path.empty() ? all : same_path;
}

}  // namespace ttap
