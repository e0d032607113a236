#include "torch/tables/spin_lock.h"

#include <Python.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <thread>

namespace ttap::torch_source {
namespace {

constexpr int kSpins = 64;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

template <class Done>
void spin_until(const Done& done) {
  while (true) {
    for (int i = 0; i < kSpins; ++i) {
      if (done()) return;
      pause();
    }
    std::this_thread::yield();
  }
}

// PyGILState_Check() is always true once there has been a second interpreter in the process.
bool holds_gil() {
  if (Py_IsInitialized() == 0) return false;
#if PY_VERSION_HEX >= 0x030D0000
  const PyThreadState* const current = PyThreadState_GetUnchecked();
#else
  const PyThreadState* const current = _PyThreadState_UncheckedGet();
#endif
  return current != nullptr && current->thread_id == PyThread_get_thread_ident();
}

bool membarrier(int command) { return ::syscall(SYS_membarrier, command, 0, 0) == 0; }

bool can_be_owned() {
  static const bool registered = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
  return registered;
}

}  // namespace

constinit thread_local char SpinLock::own_byte_ = 0;

void SpinLock::lock_shared() {
  if (!taken_.exchange(true, std::memory_order_acquire)) {
    if (take_from_owner()) {
      holder_.store(this_thread(), std::memory_order_relaxed);
      return;
    }
    taken_.store(false, std::memory_order_release);
  }
  if (!holds_gil()) {
    wait();
    return;
  }
  PyThreadState* const state = PyEval_SaveThread();
  wait();
  PyEval_RestoreThread(state);
}

// For the one that has `taken_`. False: the owner, who was that until now, is still inside.
bool SpinLock::take_from_owner() {
  const uintptr_t owner = owner_.load(std::memory_order_relaxed);
  if (owner == kNobodyYet) {
    // The next time.
    const uintptr_t self = can_be_owned() ? this_thread() : kNobodyAnyMore;
    first_owner_.store(self, std::memory_order_relaxed);
    owner_.store(self, std::memory_order_relaxed);
    return true;
  }
  if (owner != kNobodyAnyMore) {
    owner_.store(kNobodyAnyMore, std::memory_order_relaxed);
    // A forked child may have to register again; the last one is slow, and never fails.
    if (!membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) &&
        !(membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) && membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)))
      (void)membarrier(MEMBARRIER_CMD_GLOBAL);
  }
  return !owner_inside_.load(std::memory_order_acquire);
}

void SpinLock::wait() {
  spin_until(
      [&] { return !taken_.load(std::memory_order_relaxed) && !taken_.exchange(true, std::memory_order_acquire); });
  if (!take_from_owner()) spin_until([&] { return !owner_inside_.load(std::memory_order_acquire); });
  holder_.store(this_thread(), std::memory_order_relaxed);
}

void SpinLock::reset() {
  owner_.store(kNobodyAnyMore, std::memory_order_relaxed);
  owner_inside_.store(false, std::memory_order_relaxed);
  taken_.store(false, std::memory_order_relaxed);
  holder_.store(kNobodyYet, std::memory_order_relaxed);
  held_by_owner_.store(false, std::memory_order_relaxed);
}

}  // namespace ttap::torch_source
