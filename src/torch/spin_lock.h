#pragma once

#include <Python.h>

#include <atomic>
#include <thread>

namespace ttap::torch_source {

// For sections of some hundred nanoseconds that threads hardly ever enter together: half the cost of a mutex. Whoever
// has to wait lets go of the GIL meanwhile: some tensors ask Python for their sizes, and the thread that holds the lock
// then waits for the GIL.
class SpinLock {
 public:
  void lock() {
    if (try_lock()) return;
    if (Py_IsInitialized() == 0 || PyGILState_Check() == 0) {
      wait();
      return;
    }
    PyThreadState* const state = PyEval_SaveThread();
    wait();
    PyEval_RestoreThread(state);
  }
  bool try_lock() { return !taken_.exchange(true, std::memory_order_acquire); }
  void unlock() { taken_.store(false, std::memory_order_release); }

  // In a forked child, where whoever held it does not exist.
  void reset() { taken_.store(false, std::memory_order_relaxed); }

 private:
  static constexpr int kSpins = 64;
  void wait() {
    while (taken_.exchange(true, std::memory_order_acquire)) {
      for (int i = 0; i < kSpins && taken_.load(std::memory_order_relaxed); ++i) pause();
      if (taken_.load(std::memory_order_relaxed)) std::this_thread::yield();
    }
  }
  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }

  std::atomic<bool> taken_{false};
};

}  // namespace ttap::torch_source
