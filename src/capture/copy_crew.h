#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "core/function_ref.h"

namespace ttap {

// A few threads that help a caller with work in numbered chunks. While it waits in capture(), the program's other
// threads mostly have nothing to do, so their cores are free for a moment; whether a helper gets one of them is up to
// the system, and nobody waits for it.
class CopyCrew {
  struct Job;

 public:
  // Hands one thread its chunks.
  class Chunks {
   public:
    std::optional<uint64_t> next();

   private:
    friend class CopyCrew;
    Chunks(Job& job, std::optional<uint64_t> first) : job_(job), first_(first) {}
    Job& job_;
    std::optional<uint64_t> first_;
  };
  using Work = FunctionRef<void(Chunks&)>;

  // Starts as many of the helpers as can be had.
  explicit CopyCrew(unsigned helpers);
  ~CopyCrew() { stop(); }
  CopyCrew(const CopyCrew&) = delete;
  CopyCrew& operator=(const CopyCrew&) = delete;

  // Calls `work` on this thread and on helpers; every call takes chunks until there are none. Returns when all chunks
  // [0, count) are done. Waits for nobody but helpers that have begun a chunk. `work` must not throw. Several threads
  // may call it at once.
  void share(uint64_t count, Work work);

  // Afterwards share() works alone. Not while a fork's child: it has no helpers.
  void stop();

 private:
  // Lives on the stack of share().
  struct Job {
    Work work;
    uint64_t count;
    int caller_cpu;
    std::atomic<uint64_t> taken{0};
    unsigned helping = 0;  // helpers at work; guarded by mutex_
    Job* next = nullptr;   // in jobs_; guarded by mutex_
  };
  void help();
  void list(Job& job);
  void unlist(Job& job);

  std::mutex mutex_;
  std::condition_variable wanted_;  // a job came, or stopping_
  std::condition_variable left_;    // a helper left a job
  Job* jobs_ = nullptr;
  bool stopping_ = false;
  std::atomic<bool> has_helpers_{false};
  std::vector<std::thread> helpers_;
};

}  // namespace ttap
