#include "torch/callbacks.h"

#include <Python.h>
#include <c10/util/thread_name.h>
#include <pthread.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "capture/process.h"
#include "torch/frame.h"
#include "torch/link.h"

namespace ttap::torch_source {
namespace {

using Link = Observer::Link;
using ThreadState = Observer::ThreadState;

struct Slot {
  std::atomic<uint64_t> generation{0};  // grows whenever it is taken
  std::shared_ptr<Link> link;           // null: free; guarded by slots_mutex
  at::CallbackHandle calls = 0;
  at::CallbackHandle nodes = 0;
  uint64_t thread = 0;     // that the callbacks are of; 0: all
  bool is_over = false;    // its callbacks could not be taken off where it was stopped; guarded by slots_mutex
  bool is_orphan = false;  // that thread has ended; likewise
  unsigned forks = 0;      // that had happened when they were installed
};
std::mutex slots_mutex;
std::array<Slot, Callbacks::kSlots> slots;
int next_slot = 0;

struct SlotState {
  uint64_t generation = 0;
  ThreadState state;
};
using States = std::array<SlotState*, Callbacks::kSlots>;
constexpr States kNoStates = {};

// What every callback reads, in initial-exec TLS: a fixed offset from the thread pointer. In a library that is loaded
// with dlopen() other TLS costs a call, and a type with a destructor two. Initial-exec TLS is scarce, hence the
// pointer.
struct PerThread {
  ThreadFlags flags;
  const States* states = &kNoStates;
};
[[gnu::tls_model("initial-exec")]] constinit thread_local PerThread per_thread = {};

// With slots_mutex held.
void give_up(Slot& slot) {
  slot.link = nullptr;
  ++slot.generation;
}

struct OwnedStates {
  States states = {};
  ~OwnedStates() {
    per_thread.states = &kNoStates;
    for (SlotState*& each : states) delete std::exchange(each, nullptr);
    const std::lock_guard lock(slots_mutex);
    for (Slot& slot : slots) {
      if (slot.link == nullptr || slot.thread != thread_number()) continue;
      slot.is_orphan = true;
      if (slot.is_over) give_up(slot);
    }
  }
};
thread_local OwnedStates owned_states;

SlotState& refresh(int slot) {
  auto fresh = std::make_unique<SlotState>();
  {
    const std::lock_guard lock(slots_mutex);
    fresh->generation = slots[slot].generation;
    fresh->state.link = slots[slot].link;
  }
  // Collectives copy on threads of their own: no operators of the program.
  if (c10::getThreadName().rfind("pt_gloo", 0) == 0) fresh->state.link = nullptr;
  fresh->state.slot = slot;
  fresh->state.thread = thread_number();
  fresh->state.is_worker = at::in_parallel_region();
  fresh->state.flags = &per_thread.flags;
  fresh->state.keys = &c10::impl::raw_local_dispatch_key_set;
  per_thread.states = &owned_states.states;
  const std::unique_ptr<SlotState> before(std::exchange(owned_states.states[slot], fresh.release()));
  return *owned_states.states[slot];
}

[[gnu::always_inline]] inline ThreadState& state_of(int slot) {
  SlotState* mine = (*per_thread.states)[slot];
  const bool current = mine != nullptr && mine->generation == slots[slot].generation.load(std::memory_order_relaxed);
  if (!current && (mine == nullptr || mine->state.in_use == 0)) [[unlikely]]
    mine = &refresh(slot);
  return mine->state;
}

// While autograd evaluates a node the thread has other callbacks: a copy of those that there were when backward began.
bool is_in_autograd() { return torch::autograd::get_current_graph_task_id() != -1; }

// Callbacks of one thread can only be taken off there.
bool can_be_taken_off(const Slot& slot) {
  // PyTorch's own lock may have been copied while another thread held it.
  if (slot.forks != fork_count().load()) return false;
  return slot.thread == 0 || (slot.thread == thread_number() && !is_in_autograd());
}

void take_off(Slot& slot) {
  at::removeCallback(slot.calls);
  at::removeCallback(slot.nodes);
  const std::lock_guard lock(slots_mutex);
  give_up(slot);
}

// How a call was taken that is not ignored. PyTorch keeps it from the first callback to the last, and believes that it
// owns it; there is one of each kind, for good.
struct Taken final : at::ObserverContext {
  enum class As : uint8_t { kFrame, kEngine, kFunction } as;
  explicit Taken(As how) : as(how) {}
  static void operator delete(Taken*, std::destroying_delete_t) {}
};
Taken* const kAsFrame = new Taken(Taken::As::kFrame);
Taken* const kAsEngine = new Taken(Taken::As::kEngine);
Taken* const kAsFunction = new Taken(Taken::As::kFunction);

}  // namespace

// A tensor that asks Python for its sizes may have raised, in a call of ours.
static void drop_python_error() {
  if (Py_IsInitialized() == 0) return;
  const PyGILState_STATE state = PyGILState_Ensure();
  PyErr_Clear();
  PyGILState_Release(state);
}

ThreadFlags& thread_flags() { return per_thread.flags; }

Observer::ThreadState& Callbacks::state(int slot) { return state_of(slot); }

// The friend of Observer that the functions below go through. No exception leaves them.
struct CallbackBody {
  template <class Work>
  [[gnu::always_inline]] static bool guarded(ThreadState& thread, const Work& work) noexcept {
    std::unique_lock lock(thread.link->mutex);
    return guarded(thread, lock, work);
  }
  template <class Work>
  [[gnu::always_inline]] static bool guarded(ThreadState& thread, std::unique_lock<SpinLock>& lock,
                                             const Work& work) noexcept {
    Link& link = *thread.link;
    Observer* observer = link.observer;
    if (observer == nullptr) return true;
    bool done = false;
    ++thread.flags->suppressed;
    ++thread.in_use;
    try {
      work(*observer, lock);
      done = true;
    } catch (const std::exception& error) {
      if (link.observer == observer) observer->fail(error.what());
      drop_python_error();
    } catch (...) {
      if (link.observer == observer) observer->fail("an unknown exception");
    }
    --thread.in_use;
    --thread.flags->suppressed;
    return done;
  }

  static Taken* begin(ThreadState& thread, const at::RecordFunction& function) {
    Link& link = *thread.link;
    link.mutex.lock();
    if (link.observer == nullptr) [[unlikely]] {
      link.mutex.unlock();
      Callbacks::remove_late(thread.slot);
      return nullptr;
    }
    if (link.observer->only_shapes_) {
      const Observer::Shaping shaped = link.observer->begin_shaped(function, thread);
      if (shaped != Observer::Shaping::kNo) {
        link.mutex.unlock();
        if (shaped == Observer::Shaping::kHidden) return nullptr;
        ++thread.opaque;
        return kAsFrame;
      }
    }
    return begin_frame(thread, function);
  }

  // With the lock held.
  static Taken* begin_frame(ThreadState& thread, const at::RecordFunction& function) {
    size_t depth = thread.depth;
    const size_t engine = thread.engine.size();
    bool is_function = false;
    bool done = false;
    {
      std::unique_lock lock(thread.link->mutex, std::adopt_lock);
      done = guarded(thread, lock, [&](Observer& observer, std::unique_lock<SpinLock>&) {
        (void)thread.innermost();  // gets its frame now: this call's own comes after it
        depth = thread.depth;
        is_function = observer.begin(function, thread, lock);
      });
    }
    if (thread.depth > depth) {
      // A call that failed half way hides what it calls; what it has noted may point to arguments that will be gone.
      if (!done) thread.top().clear();
      if (thread.top().opaque) ++thread.opaque;
      return kAsFrame;
    }
    if (thread.engine.size() > engine) return kAsEngine;
    return is_function ? kAsFunction : nullptr;
  }

  // The call may have begun with another observer in the slot; then there is nothing of it here.
  static void end(ThreadState& thread, const at::RecordFunction& function, Taken::As as) {
    if (as == Taken::As::kEngine && !thread.engine.empty()) {
      thread.nodes.resize(std::min(thread.nodes.size(), thread.engine.back()));
      thread.engine.pop_back();
    }
    if (as == Taken::As::kFunction && thread.link != nullptr)
      guarded(thread,
              [&](Observer& observer, std::unique_lock<SpinLock>&) { observer.end_function(function, thread); });
    if (as != Taken::As::kFrame || thread.depth == 0) return;
    guarded(thread,
            [&](Observer& observer, std::unique_lock<SpinLock>& lock) { observer.end(function, thread, lock); });
    if (thread.top().opaque && thread.opaque > 0) --thread.opaque;
    thread.pop();
  }

  // Of the shaped call. False: it has a frame now.
  static bool end_shaped(ThreadState& thread, const at::RecordFunction& function) {
    Link& link = *thread.link;
    const std::lock_guard lock(link.mutex);
    if (link.observer != nullptr && !link.observer->end_shaped(function, thread)) return false;
    thread.shaped.op = nullptr;
    --thread.opaque;
    return true;
  }

  static void begin_node(int slot, const at::RecordFunction& function) {
    ThreadState& thread = state_of(slot);
    const size_t before = thread.nodes.size();
    if (thread.link != nullptr)
      guarded(thread, [&](Observer& observer, std::unique_lock<SpinLock>&) { observer.enter_node(function, thread); });
    if (thread.nodes.size() == before) thread.nodes.emplace_back();
  }

  static void end_node(int slot) {
    ThreadState& thread = state_of(slot);
    // What autograd does with its results still belongs to the node.
    if (!thread.nodes.empty() && thread.engine.empty()) thread.nodes.pop_back();
  }
};

namespace {

template <int kSlot>
std::unique_ptr<at::ObserverContext> begin_call(const at::RecordFunction& function) {
  ThreadState& thread = state_of(kSlot);
  if (thread.ignores_calls()) return nullptr;
  return std::unique_ptr<at::ObserverContext>(CallbackBody::begin(thread, function));
}
template <int kSlot>
void end_call(const at::RecordFunction& function, at::ObserverContext* context) {
  if (context == nullptr) return;
  ThreadState& thread = state_of(kSlot);
  const Taken::As as = static_cast<Taken*>(context)->as;
  const bool is_shaped = as == Taken::As::kFrame && thread.shaped.op != nullptr;
  if (!is_shaped || !CallbackBody::end_shaped(thread, function)) CallbackBody::end(thread, function, as);
}
template <int kSlot>
std::unique_ptr<at::ObserverContext> begin_node(const at::RecordFunction& function) {
  CallbackBody::begin_node(kSlot, function);
  return nullptr;
}
template <int kSlot>
void end_node(const at::RecordFunction&, at::ObserverContext*) {
  CallbackBody::end_node(kSlot);
}

struct Functions {
  at::RecordFunctionCallback calls;
  at::RecordFunctionCallback nodes;
};
template <int kSlot>
Functions functions() {
  return {
      at::RecordFunctionCallback(&begin_call<kSlot>, &end_call<kSlot>)
          .needsInputs(true)
          .needsOutputs(true)
          .scopes({at::RecordScope::FUNCTION}),
      at::RecordFunctionCallback(&begin_node<kSlot>, &end_node<kSlot>).scopes({at::RecordScope::BACKWARD_FUNCTION})};
}
template <int... kAll>
Functions functions_of(int slot, std::integer_sequence<int, kAll...>) {
  using Make = Functions (*)();
  static constexpr Make kMakers[] = {&functions<kAll>...};
  return kMakers[slot]();
}

}  // namespace

// PyTorch keeps a copy of the callbacks per thread. A thread whose copy is stale makes another with its next operator,
// under a lock of PyTorch's that a child may have inherited locked. The only thread of a child is the one that forks:
// its copy is brought up to date before.
static void before_fork() { (void)at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION); }

// In a forked child: threads that were in here do not exist, and will neither unlock nor leave.
static void after_fork() {
  new (&slots_mutex) std::mutex;
  for (Slot& slot : slots) {
    if (slot.link == nullptr) continue;
    slot.link->mutex.reset();
    slot.link->busy.store(0, std::memory_order_relaxed);
  }
}

// With slots_mutex held: a slot whose observer has stopped and whose callbacks could not be taken off: they are from
// before a fork. Nothing is asked of PyTorch then: a child may have inherited its lock locked.
static int reuse(const std::shared_ptr<Link>& link) {
  for (int slot = 0; slot < Callbacks::kSlots; ++slot) {
    Slot& candidate = slots[slot];
    if (candidate.link == nullptr || !candidate.is_over || candidate.thread != 0) continue;
    candidate.link = link;
    candidate.is_over = false;
    ++candidate.generation;
    return slot;
  }
  return -1;
}

int Callbacks::install(const std::shared_ptr<Link>& link, bool all_threads) {
  int taken = -1;
  {
    static std::once_flag once;
    std::call_once(once, [] { ::pthread_atfork(&before_fork, nullptr, &after_fork); });
    const std::lock_guard lock(slots_mutex);
    if (const int slot = all_threads ? reuse(link) : -1; slot >= 0) return slot;
    for (int i = 0; i < kSlots && taken < 0; ++i) {
      const int slot = (next_slot + i) % kSlots;
      if (slots[slot].link == nullptr) taken = slot;
    }
    if (taken < 0) return -1;
    next_slot = (taken + 1) % kSlots;
    slots[taken].link = link;
    slots[taken].thread = all_threads ? 0 : thread_number();
    slots[taken].is_over = slots[taken].is_orphan = false;
    ++slots[taken].generation;
  }
  if (!all_threads) (void)state_of(taken);  // whose end is that of the thread
  const Functions added = functions_of(taken, std::make_integer_sequence<int, kSlots>());
  const auto add = all_threads ? &at::addGlobalCallback : &at::addThreadLocalCallback;
  slots[taken].forks = fork_count().load();
  slots[taken].calls = add(added.calls);
  slots[taken].nodes = add(added.nodes);
  return taken;
}

void Callbacks::remove(int slot) {
  if (can_be_taken_off(slots[slot])) {
    take_off(slots[slot]);
    return;
  }
  // They stay, recording nothing, and so does their slot, until their thread calls an operator again, or ends.
  const std::lock_guard lock(slots_mutex);
  slots[slot].is_over = true;
  if (slots[slot].is_orphan) give_up(slots[slot]);
}

void Callbacks::remove_late(int slot) {
  {
    const std::lock_guard lock(slots_mutex);
    if (slots[slot].link == nullptr || !slots[slot].is_over || !can_be_taken_off(slots[slot])) return;
  }
  take_off(slots[slot]);
}

bool Callbacks::sees_this_thread(int slot) {
  if (slots[slot].thread == 0 || slots[slot].thread == thread_number()) return true;
  const SlotState* mine = (*per_thread.states)[slot];
  return mine != nullptr && mine->generation == slots[slot].generation.load() && at::hasThreadLocalCallbacks();
}

// ---- the observer's side ----

void Observer::start() {
  if (!options_.all_threads && is_in_autograd())
    throw std::runtime_error(
        "a trace of its own thread cannot begin inside backward, which puts the thread's callbacks aside: begin it "
        "before backward(), or trace all threads");
  forks_at_start_ = fork_count().load();
  {
    const std::lock_guard lock(link_->mutex);
    link_->observer = this;
  }
  slot_ = Callbacks::install(link_, options_.all_threads);
  if (slot_ < 0) {
    const std::lock_guard lock(link_->mutex);
    link_->observer = nullptr;
    throw std::runtime_error("16 traces are at work already: end one of them first");
  }
}

void Observer::stop() {
  refuse_from_inside(*link_);
  const int slot = slot_.exchange(-1);
  if (slot >= 0) {
    Callbacks::remove(slot);
    const std::lock_guard lock(link_->mutex);
    if (gpu_.waiting() && fork_count().load() == forks_at_start_) gpu_.launch_all();
    link_->observer = nullptr;
    tensors_.forget_objects();
    leaves_.clear();
  }
  // Also where somebody else has stopped it. This thread itself may be inside: in the user's hook.
  while (link_->busy.load(std::memory_order_acquire) > Unlocked::of_this_thread(*link_)) std::this_thread::yield();
}

Observer::ThreadState* Observer::thread_state() {
  const int slot = slot_.load();
  if (slot < 0 || !Callbacks::sees_this_thread(slot)) return nullptr;
  ThreadState& thread = Callbacks::state(slot);
  return thread.link == link_ ? &thread : nullptr;
}

}  // namespace ttap::torch_source
