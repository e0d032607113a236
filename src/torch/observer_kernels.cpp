#include <algorithm>

#include "core/op_name.h"
#include "torch/frame.h"
#include "torch/link.h"
#include "torch/observer_inl.h"

// Kernels that are launched past the dispatcher: every tensor argument before and after.
namespace ttap::torch_source {
namespace {

// Operators are numbered from 0, kernels from here on.
constexpr uint64_t kFirstKernel = uint64_t{1} << 30;
// Of Python, between the program and begin_kernel(): see python/tensortap/ops/kernels.py.
constexpr size_t kLauncherFrames = 2;

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) (out += c) += c == '%' ? "%" : "";
  return out;
}

}  // namespace

void Observer::begin_kernel(std::string_view library, std::string_view name, std::vector<KernelArgument> arguments) {
  ThreadState* thread = thread_state();
  if (thread == nullptr || thread->flags->suppressed > 0) return;
  const std::shared_ptr<Link> link = link_;
  auto lock = lock_from_outside(*link);
  if (link->observer != this) return;
  const SuppressRecording quietly;
  if (gpu_.waiting()) gpu_.launch_all();
  Frame* parent = thread->innermost();
  Frame& frame = thread->push();
  ++thread->opaque;  // what a launcher calls is not the program's
  thread->kernels.push_back(thread->depth);
  try {
    note_kernel(frame, *thread, parent, library, name, std::move(arguments), lock);
  } catch (const std::exception& error) {
    if (link->observer != this) return;
    fail(error.what());
    frame.clear();  // it still hides what it calls
  }
}

void Observer::note_kernel(Frame& frame, ThreadState& thread, const Frame* parent, std::string_view library,
                           std::string_view name, std::vector<KernelArgument> arguments,
                           std::unique_lock<SpinLock>& lock) {
  if (thread.flags->compiling > 0 && !options_.compilation) {
    ++counts_.compilation;  // autotuning
    return;
  }
  const std::string full_name = std::string(library) + "::" + std::string(name);
  const uint64_t number = kernel_numbers_.try_emplace(full_name, kFirstKernel + kernel_numbers_.size()).first->second;
  const Name* found = place_call(frame, thread, full_name, number, lock);
  if (found == nullptr) return;
  if (!found->level || sink_->full()) {
    ++(found->level ? counts_.no_room : counts_.rejected);
    for (const KernelArgument& argument : arguments)
      if (argument.tensor.defined()) tensors_.written(argument.tensor);
    return;
  }
  if (!begin_call(frame, thread, parent, OpKind::kKernel, *found, kLauncherFrames, lock)) return;
  OpCall& call = frame.call;
  std::string text;
  const Level level = options_.inputs ? call.level : Level::kMeta;
  for (KernelArgument& argument : arguments) {
    if (!text.empty()) text += ", ";
    if (!argument.name.empty()) text += escaped(argument.name) + "=";
    if (!argument.tensor.defined()) {
      text += escaped(argument.text);
      continue;
    }
    text += "%" + std::to_string(call.uses.size());
    const TextId path = texts_.intern("/" + argument.name);
    use_tensor(frame, argument.tensor, places_.of(places_.in(), path), {.level = level, .given = true});
    frame.rare().written.push_back(
        {.tensor = std::move(argument.tensor), .path = path, .use = static_cast<uint32_t>(call.uses.size() - 1)});
  }
  call.arguments = texts_.intern(text);
  if (!take_pending(frame, lock)) return;
  if (gpu_.waiting()) gpu_.launch_all();  // it may write to any of them
  for (Frame::Written& each : frame.rare().written)
    if (const Fingerprint* known = tensors_.fingerprint_of(each.tensor, tensors_.meta_of(each.tensor)))
      each.before = known->hash;
}

// A kernel does not say which of its arguments it writes: those that are not what they were.
void Observer::keep_what_changed(Frame& frame, size_t first_use, size_t first_tensor) {
  OpCall& call = frame.call;
  const std::vector<Frame::Written>& arguments = frame.rare().written;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Frame::Written& each = arguments[i];
    OpUse& after = call.uses[first_use + i];
    const auto taken = std::find_if(call.tensors.begin() + static_cast<ptrdiff_t>(first_tensor), call.tensors.end(),
                                    [&](const OpTensor& tensor) { return tensor.value == after.value; });
    const bool same = taken != call.tensors.end() && taken->fingerprint != kNoNumber && each.before &&
                      *each.before == call.fingerprints[taken->fingerprint].hash;
    call.uses[each.use].written = !same;
    if (!same) continue;
    after.value = call.uses[each.use].value;
    call.tensors.erase(taken);
    tensors_.keep_value(each.tensor, tensors_.meta_of(each.tensor), after.value);
  }
}

void Observer::not_initialised(const at::Tensor& tensor) {
  const std::shared_ptr<Link> link = link_;
  const auto lock = lock_from_outside(*link);
  if (link->observer == this && options_.ids && tensor.defined()) tensors_.set_uninitialised(tensor, true);
}

void Observer::forget(const at::Tensor& tensor) {
  const std::shared_ptr<Link> link = link_;
  const auto lock = lock_from_outside(*link);
  if (link->observer != this || !tensor.defined()) return;
  tensors_.forget_object(tensor);
  leaves_.forget(tensor);
}

void Observer::name_leaf(const at::Tensor& leaf, std::string_view name) {
  const std::shared_ptr<Link> link = link_;
  if (link->mutex.is_mine()) return;  // a module of a tensor's own code
  const std::lock_guard lock(link->mutex);
  leaves_.add(leaf, name);
}

void Observer::name_tensor(const at::Tensor& tensor, std::string_view name) {
  const std::shared_ptr<Link> link = link_;
  if (link->mutex.is_mine() || !options_.ids || !tensor.defined()) return;
  const std::lock_guard lock(link->mutex);
  tensors_.set_name(tensor, texts_.intern(name));
}

std::string Observer::name_of(const at::Tensor& tensor) const {
  const std::shared_ptr<Link> link = link_;
  if (link->mutex.is_mine() || !tensor.defined()) return {};
  const std::lock_guard lock(link->mutex);
  const TextId name = tensors_.name_of(tensor);
  return name != 0 ? std::string(texts_.text(name)) : std::string();
}

void Observer::end_noted_kernel(Frame& frame, std::unique_lock<SpinLock>& lock) {
  frame.call.end_ns = ticks_.now_ns();
  // It reaches memory through its arguments only.
  for (const Frame::Written& written : frame.rare().written) tensors_.written(written.tensor);
  const UseOptions how{.level = options_.outputs ? frame.call.level : Level::kMeta};
  const size_t first_use = frame.call.uses.size();
  const size_t first_tensor = frame.call.tensors.size();
  for (const Frame::Written& written : frame.rare().written)
    use_tensor(frame, written.tensor, places_.of(places_.after(), written.path), how);
  if (!take_pending(frame, lock)) return;
  keep_what_changed(frame, first_use, first_tensor);
  finish(frame);
}

void Observer::end_kernel() {
  ThreadState* thread = thread_state();
  if (thread == nullptr || thread->kernels.empty() || thread->kernels.back() != thread->depth) return;
  const std::shared_ptr<Link> link = link_;
  auto lock = lock_from_outside(*link);
  const SuppressRecording quietly;
  thread->kernels.pop_back();
  Frame& frame = thread->top();
  if (link->observer == this && frame.logged) {
    try {
      end_noted_kernel(frame, lock);
    } catch (const std::exception& error) {
      if (link->observer == this) fail(error.what());
    }
  }
  thread->pop();
  if (thread->opaque > 0) --thread->opaque;
}

}  // namespace ttap::torch_source
