#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "cuda/kernels/device_result.h"
#include "cuda/runtime/memory.h"
#include "cuda/runtime/runtime.h"

namespace ttap::cuda {

// Events of one device that are used again and again.
class EventPool {
 public:
  EventPool() = default;
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  Result<EventHandle> take();  // the device is the current one
  void give_back(EventHandle event);

 private:
  std::mutex mutex_;
  std::vector<EventHandle> free_;
};

// Memory of one device through which snapshots leave it, in the order in which they were reserved. Positions count
// bytes ever reserved (position % capacity is the place), and what lies below `freed`, a counter in pinned memory, has
// left:
//
//   a model's stream    waits until freed ≥ end − capacity, where that is not so already → writes [position, end)
//   the side stream     waits for that → copies it to the host → stores end in `freed`
//
// The thread that enqueues the work looks for room first, for a tenth of a second: streams that waited at once were
// seen not to go on any more, on a GPU that several processes shared. What keeps the room longer may be the program
// itself, so then the stream waits, and the thread goes on.
class DeviceRing {
 public:
  static constexpr uint64_t kAlignment = 256;  // of every position

  // Allocates; may be called while some stream is captured.
  static Result<std::unique_ptr<DeviceRing>> create(int device, uint64_t capacity);
  ~DeviceRing();
  DeviceRing(const DeviceRing&) = delete;
  DeviceRing& operator=(const DeviceRing&) = delete;

  int device() const { return device_; }
  Stream side_stream() const { return side_; }
  EventPool& events() { return events_; }
  // For the result of a launch that only copies: nobody reads it.
  DeviceResult* unread_result() const { return reinterpret_cast<DeviceResult*>(unread_.get()); }

  // The next place for so many bytes, no more than a quarter of the capacity. Used by one thread at a time.
  uint64_t reserve(uint64_t bytes);
  // Whether all of these, reserved one after the other, would find room now.
  bool has_room_for(std::span<const uint64_t> sizes) const;
  // Before anything is written to what was reserved: the caller waits for the room, and after a while `stream` does,
  // where it can.
  Status wait_for_room(uint64_t position, uint64_t bytes, Stream stream);
  std::byte* at(uint64_t position) const { return memory_.get() + position % capacity_; }

  // On the side stream, after the copy.
  Status free_up_to(uint64_t end);

  // Something went wrong: no stream waits for room any more, so what is in the ring and not yet on its way out is void.
  void give_up();
  bool given_up() const { return given_up_.load(); }

 private:
  DeviceRing(int device, uint64_t capacity) : device_(device), capacity_(capacity) {}
  uint64_t freed() const { return std::atomic_ref(*freed_).load(std::memory_order_acquire); }
  uint64_t place_after(uint64_t position, uint64_t bytes) const;

  const int device_;
  const uint64_t capacity_;
  DeviceMemory memory_;
  DeviceMemory unread_;
  PinnedMemory freed_memory_;
  uint64_t* freed_ = nullptr;
  Stream side_ = nullptr;
  EventPool events_;
  uint64_t reserved_ = 0;
  std::atomic<bool> given_up_{false};
};

}  // namespace ttap::cuda
