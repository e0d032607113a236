#include "torch/callbacks.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/thread_name.h>
#include <pthread.h>

#include <algorithm>
#include <array>
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
  uint64_t thread = 0;  // that the callbacks are of; 0: all
  unsigned forks = 0;   // that had happened when they were installed
};
std::mutex slots_mutex;
std::array<Slot, Callbacks::kSlots> slots;
int next_slot = 0;

struct SlotState {
  uint64_t generation = 0;
  ThreadState state;
};
// What every callback asks for, in one place. Plain pointers: a variable with a destructor is asked for at twice the
// cost.
struct alignas(64) PerThread {
  ThreadFlags flags;
  SlotState* states[Callbacks::kSlots];
};
thread_local PerThread per_thread = {};
struct OwnedStates {
  std::unique_ptr<SlotState> of_slot[Callbacks::kSlots];
  ~OwnedStates() { std::fill(std::begin(per_thread.states), std::end(per_thread.states), nullptr); }
};
thread_local OwnedStates owned_states;

// Autograd takes itself out of the way before it calls what an operator does.
bool is_above_autograd() {
  return !c10::impl::tls_local_dispatch_key_set().excluded_.has(c10::DispatchKey::AutogradFunctionality);
}

SlotState& refresh(int slot) {
  auto fresh = std::make_unique<SlotState>();
  {
    const std::lock_guard lock(slots_mutex);
    fresh->generation = slots[slot].generation;
    fresh->state.link = slots[slot].link;
  }
  // Collectives copy on threads of their own: no operators of the program.
  if (c10::getThreadName().rfind("pt_gloo", 0) == 0) fresh->state.link = nullptr;
  fresh->state.thread = thread_number();
  fresh->state.flags = &thread_flags();
  per_thread.states[slot] = fresh.get();
  owned_states.of_slot[slot] = std::move(fresh);
  return *per_thread.states[slot];
}

ThreadState& state_of(int slot) {
  const PerThread& here = per_thread;
  SlotState* mine = here.states[slot];
  const bool current = mine != nullptr && mine->generation == slots[slot].generation.load(std::memory_order_relaxed);
  // In code of our own somebody further up the stack still uses what is there.
  if (!current && (mine == nullptr || here.flags.deaf == 0)) [[unlikely]]
    mine = &refresh(slot);
  return mine->state;
}

}  // namespace

ThreadFlags& thread_flags() { return per_thread.flags; }

Observer::ThreadState& Callbacks::state(int slot) { return state_of(slot); }

// The friend of Observer that the functions below go through. No exception leaves them.
struct CallbackBody {
  template <class Work>
  static bool guarded(ThreadState& thread, const Work& work) noexcept {
    std::unique_lock lock(thread.link->mutex);
    Observer* observer = thread.link->observer;
    if (observer == nullptr) return true;
    bool done = false;
    ++thread.flags->deaf;
    try {
      work(*observer, lock);
      done = true;
    } catch (const std::exception& error) {
      if (thread.link->observer == observer) observer->fail(error.what());
    } catch (...) {
      if (thread.link->observer == observer) observer->fail("an unknown exception");
    }
    --thread.flags->deaf;
    return done;
  }

  static void begin(int slot, const at::RecordFunction& function) {
    ThreadState& thread = state_of(slot);
    // The common case inside a visible operator costs no lock.
    const bool hidden = thread.opaque > 0 && !(thread.top().autograd && is_above_autograd());
    if (hidden || thread.flags->deaf > 0 || thread.link == nullptr) {
      thread.marks.push_back(ThreadState::Mark::kIgnored);
      return;
    }
    const size_t depth = thread.depth;
    const size_t engine = thread.engine.size();
    bool is_function = false;
    const bool done = guarded(thread, [&](Observer& observer, std::unique_lock<SpinLock>& lock) {
      is_function = observer.begin(function, thread, lock);
    });
    const bool visible = thread.depth > depth;
    // A call that failed half way hides what it calls; what it has noted may point to arguments that will be gone.
    if (visible && !done) thread.top().clear();
    if (visible && thread.top().opaque) ++thread.opaque;
    thread.marks.push_back(visible                         ? ThreadState::Mark::kFrame
                           : thread.engine.size() > engine ? ThreadState::Mark::kEngine
                           : is_function                   ? ThreadState::Mark::kFunction
                                                           : ThreadState::Mark::kIgnored);
  }

  static void end(int slot, const at::RecordFunction& function) {
    ThreadState& thread = state_of(slot);
    if (thread.marks.empty()) return;
    const ThreadState::Mark mark = thread.marks.back();
    thread.marks.pop_back();
    if (mark == ThreadState::Mark::kEngine && !thread.engine.empty()) {
      thread.nodes.resize(std::min(thread.nodes.size(), thread.engine.back()));
      thread.engine.pop_back();
    }
    if (mark == ThreadState::Mark::kFunction)
      guarded(thread,
              [&](Observer& observer, std::unique_lock<SpinLock>&) { observer.end_function(function, thread); });
    if (mark != ThreadState::Mark::kFrame || thread.depth == 0) return;
    guarded(thread,
            [&](Observer& observer, std::unique_lock<SpinLock>& lock) { observer.end(function, thread, lock); });
    if (thread.top().opaque && thread.opaque > 0) --thread.opaque;
    thread.pop();
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
  CallbackBody::begin(kSlot, function);
  return nullptr;
}
template <int kSlot>
void end_call(const at::RecordFunction& function, at::ObserverContext*) {
  CallbackBody::end(kSlot, function);
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

// In a forked child: threads that were in here do not exist, and will neither unlock nor leave.
static void after_fork() {
  new (&slots_mutex) std::mutex;
  for (Slot& slot : slots) {
    if (slot.link == nullptr) continue;
    slot.link->mutex.reset();
    slot.link->busy.store(0, std::memory_order_relaxed);
  }
}

int Callbacks::install(const std::shared_ptr<Link>& link, bool all_threads) {
  int taken = -1;
  {
    static std::once_flag once;
    std::call_once(once, [] { ::pthread_atfork(nullptr, nullptr, &after_fork); });
    const std::lock_guard lock(slots_mutex);
    for (int i = 0; i < kSlots && taken < 0; ++i) {
      const int slot = (next_slot + i) % kSlots;
      if (slots[slot].link == nullptr) taken = slot;
    }
    if (taken < 0) return -1;
    next_slot = (taken + 1) % kSlots;
    slots[taken].link = link;
    ++slots[taken].generation;
  }
  const Functions added = functions_of(taken, std::make_integer_sequence<int, kSlots>());
  const auto add = all_threads ? &at::addGlobalCallback : &at::addThreadLocalCallback;
  slots[taken].thread = all_threads ? 0 : thread_number();
  slots[taken].forks = fork_count().load();
  slots[taken].calls = add(added.calls);
  slots[taken].nodes = add(added.nodes);
  return taken;
}

void Callbacks::remove(int slot) {
  // Callbacks of one thread can only be taken off there; elsewhere they stay, deaf, and so does their slot. So they do
  // in a forked child: PyTorch's own lock may have been copied while another thread held it.
  if (slots[slot].thread != 0 && slots[slot].thread != thread_number()) return;
  if (slots[slot].forks != fork_count().load()) return;
  at::removeCallback(slots[slot].calls);
  at::removeCallback(slots[slot].nodes);
  const std::lock_guard lock(slots_mutex);
  slots[slot].link = nullptr;
  ++slots[slot].generation;
}

// ---- the observer's side ----

void Observer::start() {
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
  const int slot = slot_.exchange(-1);
  if (slot < 0) return;
  Callbacks::remove(slot);
  {
    const std::lock_guard lock(link_->mutex);
    if (gpu_.waiting() && fork_count().load() == forks_at_start_) gpu_.launch_all();
    link_->observer = nullptr;
  }
  // This thread itself may be inside: in the user's hook.
  while (link_->busy.load(std::memory_order_acquire) > Unlocked::of_this_thread(*link_)) std::this_thread::yield();
}

Observer::ThreadState* Observer::thread_state() {
  const int slot = slot_.load();
  if (slot < 0 || (!options_.all_threads && !at::hasThreadLocalCallbacks())) return nullptr;
  ThreadState& thread = Callbacks::state(slot);
  return thread.link == link_ ? &thread : nullptr;
}

}  // namespace ttap::torch_source
