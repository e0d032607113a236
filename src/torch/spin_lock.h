#pragma once

#include <atomic>
#include <cstdint>

namespace ttap::torch_source {

// For sections of some hundred nanoseconds that threads hardly ever enter together.
//
// It belongs to the first thread that takes it, and costs that one no more than plain stores. When a second thread
// comes this ends, for good, and it is a spin lock. The second one takes it away, then has every thread of the process
// pass a barrier (membarrier): after that it sees whether the owner is inside, or else the owner sees that it owns it
// no more.
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
        held_by_owner_ = true;
        return;
      }
      owner_inside_.store(false, std::memory_order_release);
    }
    lock_shared();
  }
  void unlock() {
    if (held_by_owner_) {
      held_by_owner_ = false;
      owner_inside_.store(false, std::memory_order_release);
    } else {
      taken_.store(false, std::memory_order_release);
    }
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
  std::atomic<bool> taken_{false};  // by whoever is not the owner
  bool held_by_owner_ = false;      // of whoever holds the lock
};

}  // namespace ttap::torch_source
