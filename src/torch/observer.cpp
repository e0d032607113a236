#include "torch/observer.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/op_name.h"
#include "torch/frame.h"
#include "torch/link.h"
#include "torch/observer_inl.h"
#include "torch/tables/notes.h"

// A call from its first callback to its last.
namespace ttap::torch_source {
namespace {

constexpr size_t kMostForwards = size_t{1} << 22;
constexpr uint64_t kLargestGap = 1 << 20;  // between two numbers of autograd's sequence that we see

// What a call with lazy arguments calls is hidden as anything else's, but for the copies.
bool is_hidden_by(Observer::Frame* parent, const Observer::Frame& frame, const Operator& op,
                  const Observer::ThreadState& thread) {
  if (parent == nullptr || !parent->lazy || (parent->autograd && thread.is_above_autograd())) return false;
  if (!op.is_copy || frame.places.empty()) return true;
  return std::ranges::count(parent->rare().lazy, frame.places.front().tensor->unsafeGetTensorImpl()) == 0;
}

struct Keys {
  c10::DispatchKeySet all;
  bool modes_off;  // no dispatch mode would be asked
};
Keys keys_of(const std::vector<TensorPlace>& places, const c10::impl::PODLocalDispatchKeySet& of_thread) {
  c10::DispatchKeySet keys = of_thread.included();
  for (const TensorPlace& place : places) keys = keys | place.tensor->key_set();
  const c10::DispatchKeySet excluded = of_thread.excluded();
  return {keys - excluded, excluded.has(c10::DispatchKey::Python)};
}

}  // namespace

Observer::Observer(const ObserverOptions& options, PythonSide python)
    : options_(options),
      python_(std::move(python)),
      link_(std::make_shared<Link>()),
      places_(texts_),
      tensors_(texts_),
      operators_(places_),
      leaves_(texts_) {}

Observer::~Observer() { stop(); }

void Observer::suppress_recording(int by) { thread_flags().suppressed += by; }
void Observer::compiling(int by) { thread_flags().compiling += by; }

Observer::Counts Observer::counts() const {
  const auto lock = lock_from_outside(*link_);
  Counts counts = counts_;
  counts.lost = gpu_.lost();
  return counts;
}

void Observer::fail(const char* what) {
  if (counts_.failed++ == 0) counts_.first_failure = what;
}

// ---- names ----

const Observer::Name* Observer::find_name(const Frame& frame, const std::string& op, uint64_t key,
                                          std::unique_lock<SpinLock>& lock) {
  const auto found = names_.find(key);
  const Name* name = found != names_.end() ? &found->second : new_name(frame.scope, frame.backward, op, key, lock);
  if (name == nullptr) return nullptr;
  RecentName& recent = recent_name(key);
  recent = {key, *name};
  return &recent.name;
}

const Observer::Name* Observer::new_name(TextId scope, bool backward, const std::string& op, uint64_t key,
                                         std::unique_lock<SpinLock>& lock) {
  const std::string name = join_op_name({.scope = texts_.text(scope), .backward = backward, .op = op});
  std::optional<Level> level = options_.level;
  if (python_.decide) {
    const std::shared_ptr<Link> link = link_;
    {
      const Unlocked unlocked(*link, lock);
      const SuppressRecording quietly;
      level = python_.decide(name);
    }
    if (link->observer != this) return nullptr;
  }
  return &names_.emplace(key, Name{texts_.intern(name), level}).first->second;
}

// ---- an operator ----

bool Observer::begin(const at::RecordFunction& function, ThreadState& thread, std::unique_lock<SpinLock>& lock) {
  Operator& op = operators_.of(function);
  if (!op.dispatched) [[unlikely]] {
    if (op.is_engine) thread.engine.push_back(thread.nodes.size());
    return function.seqNr() >= 0;  // an autograd.Function of the program
  }
  if (thread.flags->compiling > 0 && !options_.compilation) [[unlikely]] {
    ++counts_.compilation;
    if (gpu_.waiting()) gpu_.launch_all();  // it may write to what the program has made
    return false;
  }
  Frame* parent = thread.innermost();
  Frame& frame = thread.push();
  const auto arguments = arguments_of(function, op);
  frame.collect(arguments);
  if (gpu_.is_watched()) launch_before(op, frame);
  const auto [keys, modes_off] = keys_of(frame.places, *thread.keys);
  if (options_.view == OpView::kDispatch && (modes_off || !op.computes || is_looked_through(op, keys) ||
                                             thread.is_hidden_worker() || is_hidden_by(parent, frame, op, thread))) {
    thread.pop();
    return false;
  }
  if (parent != nullptr && !std::exchange(parent->has_children, true) && options_.view == OpView::kLeaf)
    drop_values(*parent);
  // What the operator has computed into the copy is copied back.
  if (parent != nullptr && parent->lazy && op.is_copy && op.writes && options_.ids)
    for (const TensorPlace& place : frame.places) tensors_.written(*place.tensor);
  frame.op = &op;
  frame.opaque = options_.view == OpView::kDispatch;
  frame.autograd = keys.has_any(op.above);
  if (frame.opaque && keys.has_any(op.resolved)) [[unlikely]]
    note_lazy(frame);
  frame.is_kernel = options_.view != OpView::kDispatch && options_.ids && !is_looked_through(op, keys);
  frame.in_kernel = parent != nullptr && parent->is_kernel;
  const Name* name = place_call(frame, thread, op.full_name, op.number, lock);
  if (name == nullptr) return false;
  if (!name->level || sink_->full()) [[unlikely]] {
    ++(name->level ? counts_.no_room : counts_.rejected);
    if (op.writes && options_.ids)  // what it writes holds another value then, recorded or not
      for (const TensorPlace& place : frame.places)
        if (op.arguments[place.argument].written) frame.rare().written.push_back({.tensor = *place.tensor, .path = 0});
    frame.forget_places();
    return false;
  }
  if (!begin_call(frame, thread, parent, OpKind::kOp, *name, 0, lock)) return false;
  frame.call.arguments =
      op.argument_texts.of(frame.signature_of(arguments), [&] { return texts_.intern(arguments_text(op, arguments)); });
  frame.trains = op.training_flag < 0 || arguments[static_cast<size_t>(op.training_flag)].toBool();
  if (python_.hook) [[unlikely]]
    frame.rare().arguments.assign(arguments.begin(), arguments.end());
  if (op.group_argument >= 0) [[unlikely]]
    note_group(frame, arguments);
  if (op.async_argument >= 0) [[unlikely]]
    frame.rare().is_async = arguments[static_cast<size_t>(op.async_argument)].toBool();
  if (op.draws && options_.inputs && frame.call.level == Level::kFull) [[unlikely]]
    remember_generator(frame, arguments);
  if (keys.has(c10::DispatchKey::Python) && !describe_subclasses(frame, false, lock)) return false;
  // What the call is about to write to was perhaps read just now.
  if (note_inputs(frame, lock) && op.writes && gpu_.waiting()) launch_before_writing(frame);
  return false;
}

// A conjugate or negative view that its kernel cannot take: PyTorch copies it, and back where it is written to, which a
// dispatch mode sees.
void Observer::note_lazy(Frame& frame) {
  frame.lazy = true;
  for (const TensorPlace& place : frame.places)
    if (place.tensor->key_set().has_any(kLazy)) frame.rare().lazy.push_back(place.tensor->unsafeGetTensorImpl());
}

bool Observer::take_stack(OpCall& call, std::unique_lock<SpinLock>& lock, size_t own_frames) {
  const std::shared_ptr<Link> link = link_;
  std::string text;
  {
    const Unlocked unlocked(*link, lock);
    call.stack = stacks_.here(owner_.new_stack ? &text : nullptr, own_frames);
  }
  if (link->observer != this) return false;
  if (text.empty()) return true;
  owner_.new_stack(call.stack, std::move(text));
  stacks_.set_delivered(call.stack);
  return true;
}

void Observer::end(const at::RecordFunction& function, ThreadState& thread, std::unique_lock<SpinLock>& lock) {
  Frame& frame = thread.top();
  if (!frame.logged && frame.has_rare)
    for (const Frame::Written& written : frame.rare().written) tensors_.written(written.tensor);
  if (frame.has_children && options_.ids && options_.view != OpView::kDispatch)
    forget_results(frame, results_of(function, *frame.op));
  if (!frame.logged) {
    // The backward of a call belongs to its module, recorded or not.
    if (function.seqNr() >= 0) remember_forward(function, {kNoEvent, frame.scope, pass_here(thread, frame.backward)});
    return;
  }
  if (options_.view == OpView::kLeaf && frame.has_children) return;
  frame.call.end_ns = ticks_.now_ns();
  if (function.seqNr() >= 0) remember_forward(function, {frame.call.number, frame.scope, frame.call.pass});
  const auto results = results_of(function, *frame.op);
  if (raised(results, *frame.op)) frame.rare().notes.add("raised", "true");
  if (frame.has_rare && frame.rare().generator_state.defined()) note_generator(frame);
  if (!note_results(frame, results, lock)) return;
  if (python_.hook && !call_hook(frame, results, lock)) return;
  thread.last_event = frame.call.number;
  thread.last_scope = frame.scope;
  if (frame.backward && !thread.nodes.empty() && thread.nodes.back().notes != 0) {
    if (frame.has_rare)
      frame.rare().notes.add_all(texts_.text(thread.nodes.back().notes));
    else
      frame.call.notes = thread.nodes.back().notes;
  }
  finish(frame);
}

void Observer::finish(Frame& frame) {
  if (frame.has_rare) {
    note_rare(frame);
    std::ranges::copy(frame.rare().parts, std::back_inserter(frame.call.uses));
  }
  sink_->end(frame.call);
}

void Observer::note_rare(Frame& frame) {
  Frame::Rare& rare = frame.rare();
  if (!rare.sizes.empty()) rare.notes.add("sizes", rare.sizes.str());
  if (!rare.names.empty()) rare.notes.add("names", rare.names.str());
  if (!rare.unread.empty()) rare.notes.add("unread", rare.unread.str());
  for (const auto& [note, subclasses] : rare.subclasses)
    rare.notes.add(note, note == "fake" ? "true" : subclasses.str());
  if (!rare.notes.empty()) frame.call.notes = texts_.intern(rare.notes.str());
}

// The node of autograd that this operator may have made has the number that was the next one when it began; the last
// operator to see that number made it.
void Observer::remember_forward(const at::RecordFunction& function, const Forward& forward) {
  Forwards& forwards = forwards_[function.threadId()];
  const auto number = static_cast<uint64_t>(function.seqNr());
  if (number > forwards.first + forwards.by_number.size() + kLargestGap) forwards.by_number.clear();
  if (forwards.by_number.empty()) forwards.first = number;
  if (number < forwards.first) return;
  const uint64_t index = number - forwards.first;
  if (index >= forwards.by_number.size()) forwards.by_number.resize(index + 1, Forward{kNoEvent, 0, -1});
  Forward& kept = forwards.by_number[index];
  if (forward.event != kNoEvent || kept.event == kNoEvent) kept = forward;  // of a call and those in it, a recorded one
  if (forwards.by_number.size() > kMostForwards) {                          // nobody keeps a graph that long
    forwards.by_number.erase(forwards.by_number.begin(), forwards.by_number.begin() + kMostForwards / 2);
    forwards.first += kMostForwards / 2;
  }
}

// An autograd.Function of the program: its backward belongs to the last operator that its forward ran.
void Observer::end_function(const at::RecordFunction& function, const ThreadState& thread) {
  remember_forward(function, {thread.last_event, thread.last_scope, own_or_shared(thread.pass)});
}

// An operator turned out not to be recorded: what it was the first to use must be kept with another one.
void Observer::drop_values(Frame& frame) {
  if (frame.logged) {
    --counts_.calls;
    sink_->take_back(frame.call);
  }
  for (const OpTensor& tensor : frame.call.tensors) dropped_values_.insert(tensor.value);
  frame.call.tensors.clear();
}

void Observer::enter_node(const at::RecordFunction& function, ThreadState& thread) {
  ThreadState::Node node{.name = function.name(), .scopes_below = thread.scopes.size()};
  TextId& notes = node_notes_[node.name];
  if (notes == 0) {
    JsonObject text;
    text.add("node", json_string(node.name));
    notes = texts_.intern(text.str());
  }
  node.notes = notes;
  if (node.name == kAccumulateGrad)
    if (const TextId own = leaves_.notes_here(); own != 0) node.notes = own;
  const auto found = forwards_.find(function.forwardThreadId());
  const auto number = static_cast<uint64_t>(function.seqNr());
  if (found != forwards_.end() && function.seqNr() >= 0 && number >= found->second.first &&
      number - found->second.first < found->second.by_number.size()) {
    const Forward& forward = found->second.by_number[number - found->second.first];
    node.forward = forward.event;
    node.scope = forward.scope;
    node.pass = forward.pass;
  }
  thread.nodes.push_back(std::move(node));
}

// ---- modules ----

void Observer::enter(std::string_view name, std::string_view notes, bool makes_event) {
  ThreadState* thread = thread_state();
  if (thread == nullptr) return;
  const std::shared_ptr<Link> link = link_;
  if (link->mutex.is_mine()) return;  // a module of a tensor's own code
  std::unique_lock lock(link->mutex);
  if (link->observer != this) return;
  const uint32_t outer = thread->scopes.empty() ? kNoEvent : thread->scopes.back().event;
  Scope scope{.name = texts_.intern(name), .event = outer};
  if (makes_event && !sink_->full()) {
    scope.frame = std::make_unique<Frame>();
    OpCall& call = scope.frame->call;
    call.kind = OpKind::kModule;
    call.name = scope.name;
    call.thread = thread->thread;
    call.pass = own_or_shared(thread->pass);
    call.parent = outer;
    call.graph = GpuTaps::is_capturing() ? graph_here() : nullptr;
    call.start_ns = ticks_.now_ns();
    call.notes = texts_.intern(notes);
    sink_->begin(call);
    scope.event = call.number;
  }
  thread->scopes.push_back(std::move(scope));
}

void Observer::set_scope_event(uint32_t event) {
  if (ThreadState* thread = thread_state(); thread != nullptr && !thread->scopes.empty())
    thread->scopes.back().event = event;
}

void Observer::leave(bool raised) {
  ThreadState* thread = thread_state();
  if (thread == nullptr || thread->scopes.empty()) return;
  const std::shared_ptr<Link> link = link_;
  if (link->mutex.is_mine()) return;
  const std::unique_lock lock(link->mutex);
  if (link->observer != this) return;
  Scope scope = std::move(thread->scopes.back());
  thread->scopes.pop_back();
  if (scope.frame == nullptr) return;
  scope.frame->call.end_ns = ticks_.now_ns();
  if (raised) {
    JsonObject notes;
    if (scope.frame->call.notes != 0) notes.add_all(texts_.text(scope.frame->call.notes));
    notes.add("raised", "true");
    scope.frame->call.notes = texts_.intern(notes.str());
  }
  sink_->end(scope.frame->call);
}

void Observer::set_pass(int64_t number) {
  if (ThreadState* thread = thread_state()) thread->pass = number;
}

}  // namespace ttap::torch_source
