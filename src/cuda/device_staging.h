#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "cuda/device_ring.h"
#include "cuda/kernels/launch.h"
#include "cuda/runtime/memory.h"
#include "cuda/runtime/runtime.h"

namespace ttap::cuda {

// Brings tensors from devices to the host in the background:
//
//   model's thread   Turn → take(): the snapshot is put on the model's stream, into the device's ring
//   mover thread     waits for room in the pinned ring → puts the copy on a side stream
//   writer thread    next(): waits for the copy → writes it → release()
//
// All of it is in one order, that of take(), over all devices. The model's thread waits only when a ring is
// full, and no more than a tenth of a second; then its stream does, until the mover's copy has freed the room.
//
// A tensor's memory may be given back, and used again on the same stream, as soon as take() has returned: whatever
// that stream does then comes after the snapshot. So does a caching allocator that keeps freed memory by stream.
class DeviceStaging {
 public:
  struct Options {
    uint64_t device_bytes = 0;  // of each device that is used, or what of it can be had
    uint64_t pinned_bytes = 0;
  };
  static constexpr uint64_t kLeastBytes = 64 << 10;  // of each
  // Allocates the pinned ring and starts the mover; may be called while some stream is captured.
  static Result<std::unique_ptr<DeviceStaging>> create(const Options& options);
  ~DeviceStaging();
  DeviceStaging(const DeviceStaging&) = delete;
  DeviceStaging& operator=(const DeviceStaging&) = delete;

  // ---- the model's threads ----

  // While it lives its thread alone takes tensors: the order of taking is that of reading, and a stream that waits for
  // room is not found in front of the snapshot that would make it.
  class Turn {
   public:
    explicit Turn(DeviceStaging& staging) : lock_(staging.turn_) {}

   private:
    std::lock_guard<std::mutex> lock_;
  };

  // All below with the turn, and with the device as the current one.

  // The device's ring is there, or is made; its error is that of a device which cannot be read any more.
  Status prepare(int device);
  // The most that comes as one part; larger tensors come in several.
  uint64_t largest_part() const { return largest_part_; }
  // Whether no stream would have to wait for the tensor. After prepare().
  bool has_room_for(const TensorView& view, int device) const;
  // A tensor of at most largest_part(): its fingerprint and its copy in one launch. job.copy_to is set here. Also when
  // it fails a part will come, and say so.
  Status take(FingerprintJob job, int device, void* scratch, Stream stream);
  // A larger one: only its bytes.
  Status take_in_parts(const TensorView& view, int device, void* scratch, Stream stream);

  // ---- the writer's thread ----

  struct Part {
    std::span<const std::byte> bytes;  // good until release()
    bool last = true;                  // of its tensor
    bool sound = true;                 // else the bytes are lost
  };
  // Waits for the next part. Nothing: it cannot come before release().
  std::optional<Part> next();
  // Everything that next() has given is done with.
  void release();

  // When nothing is under way any more; what comes afterwards is an error.
  void stop();
  std::optional<Error> first_error() const;

 private:
  struct Queued {
    DeviceRing* ring = nullptr;
    uint64_t position = 0;
    uint64_t bytes = 0;
    Stream stream = nullptr;
    EventHandle taken = nullptr;  // the snapshot is in the ring
    bool last = true;
    bool sound = true;
  };
  struct Moved {
    DeviceRing* ring = nullptr;
    EventHandle arrived = nullptr;  // null: with the one before it
    std::span<const std::byte> bytes;
    uint64_t end = 0;  // in the pinned ring
    bool last = true;
    bool sound = true;
  };

  explicit DeviceStaging(const Options& options);
  Result<Queued> snapshot(DeviceRing& ring, FingerprintJob job, void* scratch, Stream stream);
  void push(const Queued& queued);
  void run_mover();
  std::vector<Queued> next_run();
  std::optional<uint64_t> place_for(uint64_t bytes, uint64_t alignment) const;
  Status move(std::span<const Queued> run, std::byte* to, EventHandle arrived);
  void note(const Error& error);

  const uint64_t device_bytes_;
  const uint64_t pinned_bytes_;
  const uint64_t largest_part_;

  std::mutex turn_;
  std::map<int, std::unique_ptr<DeviceRing>> rings_;  // guarded by turn_
  bool stopped_ = false;                              // guarded by turn_

  PinnedMemory pinned_memory_;
  std::byte* pinned_ = nullptr;  // in it, on a whole page

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Queued> queue_;  // taken, not yet moved
  std::deque<Moved> moved_;   // moved, not yet handed out
  // Positions in the pinned ring, as in a DeviceRing: released_ ≤ handed_out_ ≤ reserved_.
  uint64_t reserved_ = 0;
  uint64_t handed_out_ = 0;
  uint64_t released_ = 0;
  bool mover_waits_ = false;  // for room in the pinned ring
  bool stopping_ = false;
  std::optional<Error> first_error_;

  bool last_arrival_sound_ = true;  // the writer's
  std::thread mover_;
};

}  // namespace ttap::cuda
