#pragma once

#include "torch/frame.h"
#include "torch/observer.h"

// What every call goes through, here so that it becomes part of its callers: a call of a function costs as much as most
// of these do.
namespace ttap::torch_source {

// A boxed call shows the whole stack, of which the arguments, and later the results, are the last.
inline c10::ArrayRef<const c10::IValue> arguments_of(const at::RecordFunction& function, const Operator& op) {
  const auto inputs = function.inputs();
  const size_t count = op.arguments.size();
  return inputs.size() > count ? inputs.slice(inputs.size() - count) : inputs;
}
inline c10::ArrayRef<c10::IValue> results_of(const at::RecordFunction& function, const Operator& op) {
  const c10::ArrayRef<c10::IValue> outputs(function.outputs());
  return outputs.size() > op.result_count ? outputs.slice(outputs.size() - op.result_count) : outputs;
}

// Whether it has none, though it should: it threw an exception.
inline bool raised(c10::ArrayRef<c10::IValue> results, const Operator& op) {
  return results.empty() && op.result_count > 0;
}

// Where a call stands: `call` is a Frame or a Shaped.
template <class Call>
inline uint64_t Observer::find_scope(Call& call, const ThreadState& thread, uint64_t number) {
  call.backward = !thread.nodes.empty() && thread.scopes.size() <= thread.nodes.back().scopes_below;
  call.scope = call.backward ? thread.nodes.back().scope : thread.scopes.empty() ? 0 : thread.scopes.back().name;
  return uint64_t{call.scope} << 32 | number << 1 | (call.backward ? 1 : 0);
}

inline const Observer::Name* Observer::place_call(Frame& frame, const ThreadState& thread, const std::string& operation,
                                                  uint64_t number, std::unique_lock<SpinLock>& lock) {
  const uint64_t key = find_scope(frame, thread, number);
  const RecentName& recent = recent_name(key);
  return recent.key == key ? &recent.name : find_name(frame, operation, key, lock);
}

inline int64_t Observer::own_or_shared(int64_t pass) const {
  return pass == -1 ? pass_of_others_.load(std::memory_order_relaxed) : pass;
}

inline int64_t Observer::pass_here(const ThreadState& thread, bool backward) const {
  return own_or_shared(backward && thread.pass < 0 && !thread.nodes.empty() ? thread.nodes.back().pass : thread.pass);
}

inline void Observer::set_head(OpHead& head, const ThreadState& thread, const Frame* parent, bool backward) {
  head.thread = thread.thread;
  head.pass = pass_here(thread, backward);
  head.forward = backward && thread.nodes.back().pass == head.pass ? thread.nodes.back().forward : kNoEvent;
  head.parent = parent != nullptr && parent->logged ? parent->call.number
                : thread.scopes.empty()             ? kNoEvent
                                                    : thread.scopes.back().event;
}

inline bool Observer::begin_call(Frame& frame, const ThreadState& thread, const Frame* parent, OpKind kind,
                                 const Name& name, size_t own_frames, std::unique_lock<SpinLock>& lock) {
  frame.logged = true;
  ++counts_.calls;
  OpCall& call = frame.call;
  call.kind = kind;
  call.name = name.text;
  call.level = *name.level;
  set_head(call, thread, parent, frame.backward);
  if (options_.stacks && !take_stack(call, lock, own_frames)) return false;
  call.graph = GpuTaps::is_capturing() ? graph_here() : nullptr;
  call.start_ns = ticks_.now_ns();
  sink_->begin(call);
  return true;
}

}  // namespace ttap::torch_source
