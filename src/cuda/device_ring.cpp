#include "cuda/device_ring.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "core/round_up.h"

namespace ttap::cuda {
namespace {

constexpr uint64_t kAllFree = INT64_MAX;  // the highest that wait_until() compares rightly
constexpr std::chrono::microseconds kLookForRoom{50};
constexpr std::chrono::milliseconds kBeforeStreamWaits{100};

}  // namespace

EventPool::~EventPool() {
  for (EventHandle event : free_) destroy_event(event);
}

Result<EventHandle> EventPool::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      EventHandle event = free_.back();
      free_.pop_back();
      return event;
    }
  }
  return make_event();
}

void EventPool::give_back(EventHandle event) {
  const std::lock_guard lock(mutex_);
  free_.push_back(event);
}

Result<std::unique_ptr<DeviceRing>> DeviceRing::create(int device, uint64_t capacity) {
  const OnDevice on(device);
  const WhileCapturing allocating;
  std::unique_ptr<DeviceRing> ring(new DeviceRing(device, capacity / 4096 * 4096));
  TTAP_ASSIGN(ring->memory_, device_memory(device, ring->capacity_));
  TTAP_ASSIGN(ring->unread_, device_memory(device, sizeof(DeviceResult)));
  TTAP_ASSIGN(ring->freed_memory_, pinned_memory(sizeof(uint64_t)));
  ring->freed_ = reinterpret_cast<uint64_t*>(ring->freed_memory_.get());
  TTAP_ASSIGN(ring->side_, make_stream());
  return ring;
}

DeviceRing::~DeviceRing() {
  const OnDevice on(device_);
  if (side_ != nullptr) destroy_stream(side_);
}

uint64_t DeviceRing::place_after(uint64_t position, uint64_t bytes) const {
  const uint64_t to_end = capacity_ - position % capacity_;
  return bytes > to_end ? position + to_end : position;
}

uint64_t DeviceRing::reserve(uint64_t bytes) {
  TTAP_CHECK(bytes <= capacity_ / 4);
  const uint64_t position = place_after(reserved_, bytes);
  reserved_ = position + round_up(bytes, DeviceRing::kAlignment);
  return position;
}

bool DeviceRing::has_room_for(std::span<const uint64_t> sizes) const {
  uint64_t end = reserved_;
  for (const uint64_t bytes : sizes) end = place_after(end, bytes) + round_up(bytes, DeviceRing::kAlignment);
  return end <= freed() + capacity_;
}

Status DeviceRing::wait_for_room(uint64_t position, uint64_t bytes, Stream stream) {
  const uint64_t end = position + bytes;
  if (end <= capacity_ || freed() >= end - capacity_) return {};
  const auto until = std::chrono::steady_clock::now() + kBeforeStreamWaits;
  for (bool asked = false; freed() < end - capacity_; std::this_thread::sleep_for(kLookForRoom)) {
    if (asked || std::chrono::steady_clock::now() < until) continue;
    if (wait_until(stream, freed_, end - capacity_).ok()) return {};
    asked = true;
  }
  return {};
}

Status DeviceRing::free_up_to(uint64_t end) {
  if (store(side_, freed_, end).ok()) return {};
  TTAP_TRY(synchronize(side_));
  std::atomic_ref(*freed_).store(end, std::memory_order_release);
  return {};
}

void DeviceRing::give_up() {
  if (given_up_.exchange(true)) return;
  // What is on the way out leaves first, and stores its own, lower counts.
  (void)synchronize(side_);
  std::atomic_ref(*freed_).store(kAllFree, std::memory_order_release);
}

}  // namespace ttap::cuda
