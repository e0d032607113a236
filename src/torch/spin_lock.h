#pragma once

#include <atomic>
#include <thread>

namespace ttap::torch_source {

// For sections of some hundred nanoseconds that threads hardly ever enter together: half the cost of a mutex.
class SpinLock {
 public:
  void lock() {
    while (taken_.exchange(true, std::memory_order_acquire)) {
      for (int i = 0; i < kSpins && taken_.load(std::memory_order_relaxed); ++i) pause();
      if (taken_.load(std::memory_order_relaxed)) std::this_thread::yield();
    }
  }
  bool try_lock() { return !taken_.exchange(true, std::memory_order_acquire); }
  void unlock() { taken_.store(false, std::memory_order_release); }

 private:
  static constexpr int kSpins = 64;
  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }

  std::atomic<bool> taken_{false};
};

}  // namespace ttap::torch_source
