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
  frame.call.results = frame.call.notes = 0;  // those of the one before, until it has ended
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

// The tensors among some values, in order.
struct LoneTensors {
  const at::Tensor* tensors[ShapedCall::kMost];
  uint32_t at[ShapedCall::kMost];
  uint32_t count = 0;
  bool are_all = true;  // nothing else is among the values
  c10::DispatchKeySet keys;

  // False: they are too many, or there is something unusual about them.
  [[gnu::always_inline]] bool collect(c10::ArrayRef<const c10::IValue> values, uint32_t most) {
    for (uint32_t i = 0; i < values.size(); ++i) {
      const c10::IValue& value = values[i];
      if (!value.isTensor()) {
        if (may_hold_tensors(value)) return false;
        are_all = false;
        continue;
      }
      const at::Tensor& tensor = value.toTensor();
      if (!tensor.defined() || is_number(tensor)) {
        are_all = false;
        continue;
      }
      if (count == most || !TensorTable::is_usual(*tensor.unsafeGetTensorImpl())) return false;
      keys = keys | tensor.key_set();
      tensors[count] = &tensor;
      at[count++] = i;
    }
    return true;
  }
  uint64_t signature_of(c10::ArrayRef<const c10::IValue> values) const {
    return are_all ? only_tensors_signature(values.size()) : signature(values);
  }
};

}  // namespace

Observer::Taken Observer::begin_shaped(const at::RecordFunction& function, ThreadState& thread) noexcept try {
  Operator& op = operators_.of(function);
  if (!op.may_be_shaped || thread.shaped.op != nullptr || thread.flags->compiling > 0 || GpuTaps::is_capturing() ||
      gpu_.is_watched() || sink_->full())
    return Taken::kNo;
  const auto arguments = arguments_of(function, op);
  LoneTensors found;
  if (!found.collect(arguments, ShapedCall::kMost)) return Taken::kNo;
  const c10::DispatchKeySet excluded = thread.keys->excluded();
  const c10::DispatchKeySet keys = (found.keys | thread.keys->included()) - excluded;
  if (excluded.has(c10::DispatchKey::Python) || is_looked_through(op, keys) || thread.is_hidden_worker())
    return Taken::kHidden;
  Shaped& shaped = thread.shaped;
  const uint64_t key = find_scope(shaped, thread, op.number);
  const RecentName& recent = recent_name(key);
  if (recent.key != key || recent.name.level != Level::kMeta || keys.has(c10::DispatchKey::Python)) return Taken::kNo;
  ShapedCall& call = shaped.call;
  call.name = recent.name.text;
  set_head(call, thread, thread.depth > 0 ? &thread.top() : nullptr, shaped.backward);
  call.arguments =
      op.argument_texts.of(found.signature_of(arguments), [&] { return texts_.intern(arguments_text(op, arguments)); });
  for (uint32_t i = 0; i < found.count; ++i)
    call.shapes[i] = {op.arguments[found.at[i]].place, tensors_.meta_of(*found.tensors[i]), next_value_++};
  call.count = found.count;
  shaped.autograd = op.has_autograd && keys.has_any(c10::autograd_dispatch_keyset);
  call.start_ns = ticks_.now_ns();
  ++counts_.calls;
  sink_->begin_shaped(call);
  shaped.op = &op;
  return Taken::kYes;
} catch (const std::exception& error) {
  fail(error.what());
  return Taken::kHidden;
}

bool Observer::end_shaped(const at::RecordFunction& function, ThreadState& thread) noexcept try {
  Shaped& shaped = thread.shaped;
  ShapedCall& call = shaped.call;
  Operator& op = *shaped.op;
  call.end_ns = ticks_.now_ns();
  const auto results = results_of(function, op);
  LoneTensors found;
  if (raised(results, op) || !found.collect(results, ShapedCall::kMost - call.count)) {
    thread.give_frame();
    return false;
  }
  call.results = results.empty() ? 0 : op.result_texts.of(found.signature_of(results) + call.count, [&] {
    return texts_.intern(results_text(op, results, call.count));
  });
  for (uint32_t i = 0; i < found.count; ++i)
    call.shapes[call.count++] = {places_.of_result(found.at[i], results.size(), -1),
                                 tensors_.meta_of(*found.tensors[i]), next_value_++};
  call.notes = shaped.backward ? thread.nodes.back().notes : 0;
  if (function.seqNr() >= 0) remember_forward(function, {call.number, shaped.scope, call.pass});
  thread.last_event = call.number;
  thread.last_scope = shaped.scope;
  sink_->end_shaped(call);
  return true;
} catch (const std::exception& error) {
  fail(error.what());
  return true;
}

}  // namespace ttap::torch_source
