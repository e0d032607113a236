#pragma once

#include <atomic>
#include <cstdint>

namespace ttap::torch_source {

// A biased spin lock, for sections of some hundred nanoseconds that threads hardly ever enter together.
//
// It is biased towards the first thread that takes it, which pays no more than plain stores. A second thread revokes
// the bias for good: it takes the ownership away, then has every thread of the process pass a barrier (membarrier).
// After that it sees whether the owner is inside, or else the owner sees that it is the owner no more.
//
// Whoever has to wait lets go of the GIL meanwhile: some tensors ask Python for their sizes, and the thread that holds
// the lock then waits for the GIL.
class SpinLock {
 public:
  void lock() {
    const uintptr_t self = this_thread();
    if (owner_.load(std::memory_order_relaxed) == self) {
      owner_inside_.store(true, std::memory_order_relaxed);
      std::atomic_signal_fence(std::memory_order_seq_cst);  // the barrier is the other thread's
      if (owner_.load(std::memory_order_relaxed) == self) {
        held_by_owner_.store(true, std::memory_order_relaxed);
        return;
      }
      owner_inside_.store(false, std::memory_order_release);
    }
    lock_shared();
  }
  void unlock() {
    if (held_by_owner_.load(std::memory_order_relaxed)) {
      held_by_owner_.store(false, std::memory_order_relaxed);
      owner_inside_.store(false, std::memory_order_release);
    } else {
      holder_.store(kNobodyYet, std::memory_order_relaxed);
      taken_.store(false, std::memory_order_release);
    }
  }
  // Whether this thread holds it.
  bool is_mine() const {
    const uintptr_t self = this_thread();
    return holder_.load(std::memory_order_relaxed) == self ||
           (held_by_owner_.load(std::memory_order_relaxed) && first_owner_.load(std::memory_order_relaxed) == self);
  }

  // In a forked child, where whoever held it does not exist.
  void reset();

 private:
  // A thread, by where something of its own lies; no thread has these numbers.
  static uintptr_t this_thread() { return reinterpret_cast<uintptr_t>(&own_byte_); }
  static constexpr uintptr_t kNobodyYet = 0;
  static constexpr uintptr_t kNobodyAnyMore = 1;

  void lock_shared();
  void wait();
  bool take_from_owner();

  // At a fixed distance from the thread's pointer: see callbacks.cpp.
  [[gnu::tls_model("initial-exec")]] static constinit thread_local char own_byte_;

  std::atomic<uintptr_t> owner_{kNobodyYet};
  std::atomic<bool> owner_inside_{false};
  std::atomic<uintptr_t> first_owner_{kNobodyYet};  // who may still be inside when it owns it no more
  std::atomic<bool> taken_{false};                  // by whoever is not the owner
  std::atomic<uintptr_t> holder_{kNobodyYet};       // that one
  std::atomic<bool> held_by_owner_{false};
};

}  // namespace ttap::torch_source
