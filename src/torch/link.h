#pragma once

#include <atomic>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "torch/observer.h"
#include "torch/tables/spin_lock.h"

namespace ttap::torch_source {

// Between PyTorch's callbacks and an observer: a callback may come after the observer has gone. The mutex is the
// observer's lock; `busy` counts the threads that are inside it without the lock.
struct Observer::Link {
  SpinLock mutex;
  Observer* observer = nullptr;  // null once it has stopped
  std::atomic<int> busy{0};
};

// What the program asks of an observer it may ask where the lock is held: in the code of a tensor class, which the
// observer has asked about a tensor.
inline void refuse_from_inside(const Observer::Link& link) {
  if (link.mutex.is_mine())
    throw std::runtime_error("a trace cannot be used by the code of a tensor that it is looking at");
}
inline std::unique_lock<SpinLock> lock_from_outside(Observer::Link& link) {
  refuse_from_inside(link);
  return std::unique_lock(link.mutex);
}

// What runs in our own code, and what that calls, is not recorded.
class SuppressRecording {
 public:
  SuppressRecording() { ++thread_flags().suppressed; }
  ~SuppressRecording() { --thread_flags().suppressed; }
  SuppressRecording(const SuppressRecording&) = delete;
  SuppressRecording& operator=(const SuppressRecording&) = delete;
};

// Work without the lock. Afterwards the observer may have been stopped: then attached() is false, and it must not be
// touched any more.
class Unlocked {
 public:
  Unlocked(Observer::Link& link, std::unique_lock<SpinLock>& lock) : link_(link), lock_(lock), below_(innermost) {
    innermost = this;
    link_.busy.fetch_add(1, std::memory_order_relaxed);
    lock_.unlock();
  }
  ~Unlocked() {
    lock_.lock();
    innermost = below_;
    link_.busy.fetch_sub(1, std::memory_order_release);
  }
  // How many of those that `busy` counts are this thread's own.
  static int of_this_thread(const Observer::Link& link) {
    int count = 0;
    for (const Unlocked* each = innermost; each != nullptr; each = each->below_) count += &each->link_ == &link ? 1 : 0;
    return count;
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  Observer::Link& link_;
  std::unique_lock<SpinLock>& lock_;
  Unlocked* below_;
  static inline thread_local Unlocked* innermost = nullptr;
};

}  // namespace ttap::torch_source
