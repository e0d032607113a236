#include "capture/writer_station.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>

#include "capture/staged.h"

namespace ttap {
namespace {

using Clock = std::chrono::steady_clock;

// How long the writer sleeps for more before it writes a batch that is not full, and how old a batch may get. Each time
// it wakes it takes a core from the model for a moment, and where the model uses them all, that holds up all of them.
constexpr std::chrono::microseconds kBatchLinger{50'000};
constexpr std::chrono::microseconds kBatchAge{100'000};

// The writer gives way to the program's threads where there are more threads than cores. A kernel that refuses only
// costs the model's thread some time.
void give_way(const char* name) {
  (void)pthread_setname_np(pthread_self(), name);
  const auto self = static_cast<id_t>(::syscall(SYS_gettid));
  (void)::setpriority(PRIO_PROCESS, self, ::getpriority(PRIO_PROCESS, self) + 10);
}

}  // namespace

void run_writer_station(StagingRing& ring, PassSink& sink, const std::function<void(uint64_t)>& flushed) {
  give_way("ttap-write");
  uint64_t held = 0;             // bytes of ring that the batch keeps from being freed
  Clock::time_point begun = {};  // the batch
  const auto release = [&] {
    ring.release();
    sink.release_device_memory();
    held = 0;
  };
  while (true) {
    auto* record = ring.next_published(sink.has_batch() ? kBatchLinger : std::chrono::microseconds(0));
    if (record == nullptr) {
      sink.flush();
      release();
      continue;
    }
    const StagedKind kind = kind_of(record);
    const uint64_t ticket = kind == StagedKind::kFlush ? staged_as<StagedFlush>(record).ticket : 0;
    held += record->bytes;
    const bool first = !sink.has_batch();
    sink.take(record);
    const auto now = Clock::now();
    if (first) begun = now;
    const bool control = kind == StagedKind::kFlush || kind == StagedKind::kStop;
    if (control || sink.batch_is_full() || held >= sink.batch_bytes() || now - begun >= kBatchAge) sink.flush();
    if (!sink.has_batch()) release();
    if (kind == StagedKind::kFlush) flushed(ticket);
    if (kind == StagedKind::kStop) return;
  }
}

}  // namespace ttap
