#include "torch/frame.h"
#include "torch/observer_inl.h"

// Calls of which nothing is kept but names and shapes, which should cost least: without a frame, and without asking for
// what they cannot have. Anything unusual is left to the ordinary way.
namespace ttap::torch_source {

void Observer::ThreadState::give_frame() {
  if (depth == frames.size()) frames.push_back(std::make_unique<Frame>());
  Frame& frame = *frames[depth];
  frame.call.uses.reserve(shaped.call.count);
  frame.call.tensors.reserve(shaped.call.count);
  ++depth;  // nothing can fail from here on
  static_cast<OpHead&>(frame.call) = shaped.call;
  frame.call.results = frame.call.notes = 0;  // which the ordinary end sets
  frame.call.level = Level::kMeta;
  for (uint32_t i = 0; i < shaped.call.count; ++i) {
    const OpShape& shape = shaped.call.shapes[i];
    frame.call.uses.push_back({.place = shape.place, .value = shape.value});
    frame.call.tensors.push_back({.place = shape.place, .meta = shape.meta, .value = shape.value});
  }
  frame.op = shaped.op;
  frame.logged = true;
  frame.scope = shaped.scope;
  frame.autograd = shaped.autograd;
  frame.backward = shaped.backward;
  shaped.op = nullptr;
}

namespace {

// Of all tensors among some values; nothing where there are lists of them.
std::optional<c10::DispatchKeySet> keys_of(c10::ArrayRef<const c10::IValue> values) {
  c10::DispatchKeySet keys;
  for (const c10::IValue& value : values) {
    if (may_hold_tensors(value)) return std::nullopt;
    if (value.isTensor() && value.toTensor().defined()) keys = keys | value.toTensor().key_set();
  }
  return keys;
}

}  // namespace

// Twice for every call, and not a part of its callers: what has just been fetched need not be fetched again.
[[gnu::noinline]] Observer::ShapesFound Observer::add_shapes(ShapedCall& call,
                                                             c10::ArrayRef<const c10::IValue> values) {
  ShapesFound found;
  for (uint32_t i = 0; i < values.size(); ++i) {
    const c10::IValue& value = values[i];
    if (!value.isTensor()) {
      if (may_hold_tensors(value)) return found;
      found.only_tensors = false;
      continue;
    }
    const at::Tensor& tensor = value.toTensor();
    if (!tensor.defined() || is_number(tensor)) {
      found.only_tensors = false;
      continue;
    }
    if (call.count == ShapedCall::kMost || !TensorTable::is_usual(*tensor.unsafeGetTensorImpl())) return found;
    found.keys = found.keys | tensor.key_set();
    call.shapes[call.count++] = {i, tensors_.usual_meta_of(tensor), next_value_++};
  }
  found.are_usual = true;
  return found;
}

Observer::Shaping Observer::begin_shaped(const at::RecordFunction& function, ThreadState& thread) noexcept try {
  Operator& op = operators_.of(function);
  if (!op.may_be_shaped || thread.shaped.op != nullptr || thread.flags->compiling > 0 || GpuTaps::is_capturing() ||
      gpu_.is_watched() || sink_->full() || (thread.depth > 0 && thread.top().lazy))
    return Shaping::kNo;
  const auto arguments = arguments_of(function, op);
  const c10::DispatchKeySet included = thread.keys->included(), excluded = thread.keys->excluded();
  const bool modes_off = excluded.has(c10::DispatchKey::Python);
  if (modes_off || thread.is_hidden_worker()) return Shaping::kHidden;
  if (op.is_composite) {
    const auto of_arguments = keys_of(arguments);
    if (!of_arguments) return Shaping::kNo;
    if (is_looked_through(op, (*of_arguments | included) - excluded)) return Shaping::kHidden;
  }
  Shaped& shaped = thread.shaped;
  const uint64_t key = find_scope(shaped, thread, op.number);
  const RecentName& recent = recent_name(key);
  if (recent.key != key || recent.name.level != Level::kMeta) return Shaping::kNo;
  ShapedCall& call = shaped.call;
  call.count = 0;
  const uint32_t value_before = next_value_;
  const auto leave = [&](Shaping how) {
    next_value_ = value_before;
    return how;
  };
  const ShapesFound found = add_shapes(call, arguments);
  const c10::DispatchKeySet keys = (found.keys | included) - excluded;
  if (!found.are_usual || keys.has_any(kLazy | c10::DispatchKeySet(c10::DispatchKey::Python)))
    return leave(Shaping::kNo);
  if (is_looked_through(op, keys)) return leave(Shaping::kHidden);
  call.name = recent.name.text;
  set_head(call, thread, thread.depth > 0 ? &thread.top() : nullptr, shaped.backward);
  call.arguments =
      op.argument_texts.of(found.signature_of(arguments), [&] { return texts_.intern(arguments_text(op, arguments)); });
  for (uint32_t i = 0; i < call.count; ++i) call.shapes[i].place = op.arguments[call.shapes[i].place].place;
  call.notes = shaped.backward ? thread.nodes.back().notes : 0;
  shaped.autograd = keys.has_any(op.above);
  call.start_ns = ticks_.now_ns();
  ++counts_.calls;
  sink_->begin_shaped(call);
  shaped.op = &op;
  return Shaping::kYes;
} catch (...) {
  return Shaping::kNo;  // where it is counted if it fails once more
}

bool Observer::end_shaped(const at::RecordFunction& function, ThreadState& thread) noexcept try {
  Shaped& shaped = thread.shaped;
  ShapedCall& call = shaped.call;
  Operator& op = *shaped.op;
  call.end_ns = ticks_.now_ns();
  const auto results = results_of(function, op);
  const uint32_t first = call.count, value_before = next_value_;
  const ShapesFound found = raised(results, op) ? ShapesFound{} : add_shapes(call, results);
  if (!found.are_usual) {
    call.count = first;
    next_value_ = value_before;
    thread.give_frame();
    return false;
  }
  call.results = results.empty() ? 0 : op.result_texts.of(found.signature_of(results) + first, [&] {
    return texts_.intern(results_text(op, results, first));
  });
  for (uint32_t i = first; i < call.count; ++i)
    call.shapes[i].place = places_.of_result(call.shapes[i].place, results.size(), -1);
  if (function.seqNr() >= 0) remember_forward(function, {call.number, shaped.scope, call.pass});
  thread.last_event = call.number;
  thread.last_scope = shaped.scope;
  sink_->end_shaped(call);
  return true;
} catch (const std::exception& error) {
  fail(error.what());
  return true;
} catch (...) {
  fail("an unknown exception");
  return true;
}

}  // namespace ttap::torch_source
