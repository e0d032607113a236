#include "cuda/result_pool.h"

#include <algorithm>
#include <chrono>
#include <new>

#include "cuda/runtime/backoff.h"

namespace ttap::cuda {
namespace {

// Whether nothing is under way on its stream any more; what arrives has arrived then.
bool is_stream_done(const PendingResult& pending) {
  const OnDevice on(pending.device);
  const WhileCapturing asking;
  return query(pending.stream) != Progress::kUnderWay;
}

}  // namespace

ResultPool& ResultPool::of_process() {
  static auto* pool = new ResultPool;  // never destroyed: the driver may be gone before static objects are
  return *pool;
}

PendingResult ResultPool::take(int device, Stream stream) {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) sweep();
  if (free_.empty()) {
    if (made_ >= kMost) return {};
    const WhileCapturing allocating;
    auto memory = pinned_memory(kBlock * sizeof(DeviceResult));
    if (!memory.ok()) return {};
    auto* results = reinterpret_cast<DeviceResult*>(memory->get());
    free_.reserve(made_ + kBlock);
    for (size_t i = kBlock; i-- > 0;) free_.push_back(new (results + i) DeviceResult);
    blocks_.push_back(std::move(memory).value());
    made_ += kBlock;
  }
  DeviceResult* result = free_.back();
  free_.pop_back();
  return {result, next_sequence_++, device, stream};
}

void ResultPool::give_back(const PendingResult& pending) {
  const std::lock_guard lock(mutex_);
  free_.push_back(pending.result);
}

void ResultPool::abandon(const PendingResult& pending) {
  const std::lock_guard lock(mutex_);
  abandoned_.push_back(pending);
}

void ResultPool::sweep() {
  std::erase_if(abandoned_, [this](const PendingResult& pending) {
    if (!has_arrived(pending)) return false;
    free_.push_back(pending.result);
    return true;
  });
}

bool ResultPool::has_failed(int device) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::find(failed_devices_, device) != failed_devices_.end();
}

std::optional<DeviceResult> ResultPool::wait(const PendingResult& pending, Intervals intervals) {
  // A kernel of somebody's may have failed: then nothing arrives any more, and the place is not used again.
  if (!has_arrived(pending) && has_failed(pending.device)) return std::nullopt;
  Backoff backoff;
  const auto start = std::chrono::steady_clock::now();
  auto next_at_device = start + intervals.at_device;
  auto next_at_stream = start + intervals.at_stream;
  while (!has_arrived(pending)) {
    backoff.wait();
    const auto now = std::chrono::steady_clock::now();
    if (now >= next_at_device && !health(pending.device).ok()) {
      const std::lock_guard lock(mutex_);
      failed_devices_.push_back(pending.device);
      return std::nullopt;
    }
    if (now >= next_at_stream && is_stream_done(pending) && !has_arrived(pending)) return std::nullopt;
    if (now >= next_at_device) next_at_device = now + intervals.at_device;
    if (now >= next_at_stream) next_at_stream = now + intervals.at_stream;
  }
  const DeviceResult result = *pending.result;
  give_back(pending);
  if (result.bytes == kLostBytes) return std::nullopt;
  return result;
}

uint64_t ResultPool::outstanding() {
  const std::lock_guard lock(mutex_);
  sweep();
  return made_ - free_.size();
}

}  // namespace ttap::cuda
