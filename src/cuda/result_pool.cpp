#include "cuda/result_pool.h"

#include <algorithm>
#include <chrono>
#include <new>

#include "cuda/runtime/backoff.h"

namespace ttap::cuda {
namespace {

constexpr std::chrono::milliseconds kHealthInterval{500};

}  // namespace

ResultPool& ResultPool::of_process() {
  static auto* pool = new ResultPool;  // never destroyed: the driver may be gone before static objects are
  return *pool;
}

PendingResult ResultPool::take(int device) {
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
  return {result, next_sequence_++, device};
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

std::optional<DeviceResult> ResultPool::wait(const PendingResult& pending, std::chrono::milliseconds patience) {
  // A kernel of somebody's may have failed: then nothing arrives any more, and the place is not used again.
  if (!has_arrived(pending) && has_failed(pending.device)) return std::nullopt;
  Backoff backoff;
  const auto start = std::chrono::steady_clock::now();
  auto next_look = start + kHealthInterval;
  while (!has_arrived(pending)) {
    backoff.wait();
    if (std::chrono::steady_clock::now() < next_look) continue;
    if (!health(pending.device).ok()) {
      const std::lock_guard lock(mutex_);
      failed_devices_.push_back(pending.device);
      return std::nullopt;
    }
    if (std::chrono::steady_clock::now() - start > patience) return std::nullopt;
    next_look = std::chrono::steady_clock::now() + kHealthInterval;
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
