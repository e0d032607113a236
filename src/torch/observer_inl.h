#pragma once

#include "torch/frame.h"
#include "torch/observer.h"

// What every call goes through, here so that it becomes part of its callers: a call of a function costs as much as most
// of these do.
namespace ttap::torch_source {

inline const Observer::Name* Observer::place_call(Frame& frame, const ThreadState& thread, const std::string& operation,
                                                  uint64_t number, std::unique_lock<SpinLock>& lock) {
  frame.backward = !thread.nodes.empty() && thread.scopes.size() <= thread.nodes.back().scopes_below;
  frame.scope = frame.backward ? thread.nodes.back().scope : thread.scopes.empty() ? 0 : thread.scopes.back().name;
  const uint64_t key = uint64_t{frame.scope} << 32 | number << 1 | (frame.backward ? 1 : 0);
  const RecentName& recent = recent_name(key);
  return recent.key == key ? &recent.name : find_name(frame, operation, key, lock);
}

inline bool Observer::begin_call(Frame& frame, const ThreadState& thread, const Frame* parent, OpKind kind,
                                 const Name& name, size_t own_frames, std::unique_lock<SpinLock>& lock) {
  frame.logged = true;
  ++counts_.calls;
  OpCall& call = frame.call;
  call.kind = kind;
  call.name = name.text;
  call.level = *name.level;
  frame.shapes_only = call.level == Level::kMeta && keeps_meta_ && !options_.ids;
  call.thread = thread.thread;
  call.pass = frame.backward && thread.pass < 0 ? thread.nodes.back().pass : thread.pass;
  if (frame.backward && thread.nodes.back().pass == call.pass) call.forward = thread.nodes.back().forward;
  call.parent = parent != nullptr && parent->logged ? parent->call.number
                : thread.scopes.empty()             ? kNoEvent
                                                    : thread.scopes.back().event;
  if (options_.stacks && !take_stack(call, lock, own_frames)) return false;
  call.graph = GpuTaps::is_capturing() ? graph_here() : nullptr;
  call.start_ns = ticks_.now_ns();
  sink_->begin(call);
  return true;
}

[[gnu::always_inline]] inline void Observer::use_shape(Frame& frame, const at::Tensor& tensor, PlaceId place) {
  const MetaId meta = tensors_.meta_of(tensor);
  frame.call.shapes.push_back({place, meta, next_value_++});
}

}  // namespace ttap::torch_source
