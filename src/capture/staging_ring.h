#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "core/function_ref.h"
#include "ttap/result.h"

namespace ttap {

// All memory between capture() and the disk: one mapping of fixed size, used as a ring of variable records, which leave
// it in the order in which they were reserved:
//
//   producer threads     reserve() → fill it → publish()
//   writer thread        next_published() → collect → release(), which frees everything collected
//
// Positions count bytes ever reserved (position % capacity is the place in the mapping), so
// released_ ≤ collected_ ≤ reserved_. All are guarded by mutex_; a record's bytes belong to one side at a time, and the
// `published` flag (release/acquire) hands them over.
class StagingRing {
 public:
  static constexpr size_t kAlignment = 64;

  // The head of every record; what follows is the producer's.
  struct alignas(kAlignment) Record {
    uint64_t bytes;  // with this head
    bool padding;    // fills the end of the mapping; skipped
    bool filling;    // the ring is no longer nearly empty: the writer should not sleep on
    std::atomic<bool> published;
    std::byte* body() { return reinterpret_cast<std::byte*>(this + 1); }
  };

  enum class Wait : uint8_t { kForRoom, kNever };

  static Result<std::unique_ptr<StagingRing>> create(uint64_t capacity);
  ~StagingRing();
  StagingRing(const StagingRing&) = delete;
  StagingRing& operator=(const StagingRing&) = delete;

  // The largest body that always fits in the end, however full the ring is now.
  uint64_t largest_body() const { return capacity_ / 2 - sizeof(Record); }

  // Room for a body of `bytes`; null when there is none and `wait` says not to wait. Who waits is served in the order
  // of arrival, so that a large record is not overtaken for ever. `admit` runs under the lock, in reservation order;
  // when it returns false nothing is reserved and the result is null.
  Record* reserve(uint64_t bytes, Wait wait, FunctionRef<bool()> admit);
  void publish(Record* record, bool urgent);
  // Runs `body` under the lock under which reserve() calls `admit`.
  void locked(FunctionRef<void()> body) const;

  // While it lives, only its thread can reserve: a tensor in several records stays together.
  class Stream {
   public:
    explicit Stream(StagingRing& ring);
    ~Stream();
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

   private:
    StagingRing& ring_;
  };

  // The next record for the writer. Without one: null at once when producers wait for room or `linger` has passed, so
  // that the writer can flush; with linger zero it waits for as long as it takes.
  Record* next_published(std::chrono::microseconds linger);
  void release();  // everything that next_published() has handed out

  // After the writer has stopped: whoever waits for room is sent away.
  void shut();

  // What somebody who waits for the writer has seen of it.
  struct Watch {
    std::chrono::steady_clock::time_point since = std::chrono::steady_clock::now();
    uint64_t released = 0;
  };
  static constexpr std::chrono::milliseconds kLookInterval{100};  // between two calls of the next
  // Whether the writer stands still (a disk that hangs) while the program was interrupted. Then the ring is given up
  // for good: it is shut, and what it holds will not be written.
  bool is_given_up(Watch& watch);
  bool is_given_up() const { return given_up_.load(std::memory_order_relaxed); }

  // How much of the mapping was ever used.
  uint64_t peak_bytes() const;

 private:
  StagingRing(std::byte* memory, uint64_t capacity) : memory_(memory), capacity_(capacity) {}
  Record* at(uint64_t position) { return reinterpret_cast<Record*>(memory_ + position % capacity_); }
  std::optional<uint64_t> try_place(uint64_t bytes);

  std::byte* memory_;
  const uint64_t capacity_;

  mutable std::mutex mutex_;
  std::condition_variable room_;       // released_ advanced, or the stream was unlocked
  std::condition_variable published_;  // a record was published, or somebody waits for room
  uint64_t reserved_ = 0;
  uint64_t collected_ = 0;
  uint64_t released_ = 0;
  uint64_t touched_ = 0;                   // the mapping was used up to here
  std::deque<uint64_t> waiting_for_room_;  // tickets, in order of arrival
  uint64_t next_ticket_ = 0;
  bool shut_ = false;
  std::atomic<bool> given_up_{false};
  bool streaming_ = false;
  std::thread::id streamer_;
  // Set while the writer sleeps for good; a producer then has to wake it.
  std::atomic<bool> writer_asleep_{false};
};

}  // namespace ttap
