#pragma once

#include <atomic>
#include <mutex>
#include <thread>

#include "torch/observer.h"
#include "torch/spin_lock.h"

namespace ttap::torch_source {

// Between PyTorch's callbacks and an observer: a callback may come after the observer has gone. The mutex is the
// observer's lock; `busy` counts the threads that are inside it without the lock.
struct Observer::Link {
  SpinLock mutex;
  Observer* observer = nullptr;  // null once it has stopped
  std::atomic<int> busy{0};
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
