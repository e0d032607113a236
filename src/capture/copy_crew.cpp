#include "capture/copy_crew.h"

#include <pthread.h>
#include <sched.h>

#include <system_error>

#include "capture/process.h"

namespace ttap {

std::optional<uint64_t> CopyCrew::Chunks::next() {
  if (first_) return std::exchange(first_, std::nullopt);
  const uint64_t chunk = job_.taken.fetch_add(1, std::memory_order_relaxed);
  return chunk < job_.count ? std::optional(chunk) : std::nullopt;
}

CopyCrew::CopyCrew(unsigned helpers) {
  const SignalsBlocked blocked;
  try {
    for (unsigned i = 0; i < helpers; ++i) helpers_.emplace_back([this] { help(); });
  } catch (const std::system_error&) {
    // Those that run will do.
  }
  has_helpers_ = !helpers_.empty();
}

void CopyCrew::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  has_helpers_ = false;
  wanted_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
  helpers_.clear();
}

void CopyCrew::share(uint64_t count, Work work) {
  Job job{work, count, ::sched_getcpu()};
  Chunks mine(job, std::nullopt);
  if (count < 2 || !has_helpers_.load(std::memory_order_relaxed)) return work(mine);
  list(job);
  work(mine);
  unlist(job);
}

void CopyCrew::list(Job& job) {
  {
    const std::lock_guard lock(mutex_);
    job.next = jobs_;
    jobs_ = &job;
  }
  wanted_.notify_all();
}

void CopyCrew::unlist(Job& job) {
  std::unique_lock lock(mutex_);
  Job** link = &jobs_;
  while (*link != &job) link = &(*link)->next;
  *link = job.next;
  left_.wait(lock, [&] { return job.helping == 0; });
}

void CopyCrew::help() {
  (void)pthread_setname_np(pthread_self(), "ttap-copy");
  cpu_set_t all;
  const bool can_choose = ::sched_getaffinity(0, sizeof all, &all) == 0;
  std::unique_lock lock(mutex_);
  while (true) {
    // With the lock a helper takes its first chunk and joins at once: a job is never kept waiting by one that has not
    // begun.
    Job* job = nullptr;
    std::optional<uint64_t> first;
    wanted_.wait(lock, [&] {
      for (job = jobs_; job != nullptr; job = job->next)
        if ((first = Chunks(*job, std::nullopt).next())) return true;
      return stopping_;
    });
    if (job == nullptr) return;
    ++job->helping;
    lock.unlock();
    if (can_choose && job->caller_cpu >= 0 && job->caller_cpu == ::sched_getcpu()) {
      // Here it would only take the caller's place: where the program's threads spin before they sleep, no core looks
      // idle to the kernel. It stays away until it meets a caller elsewhere.
      cpu_set_t others = all;
      CPU_CLR(job->caller_cpu, &others);
      (void)::sched_setaffinity(0, sizeof others, &others);
    }
    Chunks chunks(*job, first);
    job->work(chunks);
    lock.lock();
    if (--job->helping == 0) left_.notify_all();
  }
}

}  // namespace ttap
