#include "capture/process.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>

namespace ttap {

std::atomic<unsigned>& fork_count() {
  static std::atomic<unsigned> count{0};
  static const int registered = pthread_atfork(nullptr, nullptr, [] { count.fetch_add(1); });
  (void)registered;
  return count;
}

uint64_t steady_ns() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}
uint64_t unix_ns() {
  return static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}

static std::atomic<bool (*)()> interrupted{nullptr};
void set_interrupted(bool (*asked)()) { interrupted.store(asked); }
bool is_interrupted() {
  const auto asked = interrupted.load();
  return asked != nullptr && thread_number() == static_cast<uint64_t>(::getpid()) && asked();
}

uint64_t thread_number() {
  // A fork keeps the thread's variables and changes its number.
  static thread_local uint64_t number = 0;
  static thread_local unsigned forks = 0;
  if (number == 0 || forks != fork_count().load(std::memory_order_relaxed)) {
    number = static_cast<uint64_t>(::syscall(SYS_gettid));
    forks = fork_count().load(std::memory_order_relaxed);
  }
  return number;
}

}  // namespace ttap
