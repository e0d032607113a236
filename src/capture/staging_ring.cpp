#include "capture/staging_ring.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

namespace ttap {
namespace {

constexpr uint64_t round_up(uint64_t n, uint64_t step) { return (n + step - 1) / step * step; }

// How long the fingerprint thread looks for more work before it sleeps for good. While it looks, producers need not
// wake it, which would cost them a system call per tensor.
constexpr std::chrono::microseconds kLookForWork{500};

}  // namespace

Result<std::unique_ptr<StagingRing>> StagingRing::create(uint64_t capacity) {
  capacity = capacity / kAlignment * kAlignment;
  void* memory = ::mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return Error{
        .code = ErrorCode::kIo,
        .message = fmt::format("cannot reserve {} bytes of staging memory: {}", capacity, std::strerror(errno)),
        .hint = "set a smaller staging size"};
  // Fewer page faults on the model's thread; a kernel that refuses only costs speed.
  (void)::madvise(memory, capacity, MADV_HUGEPAGE);
  return std::unique_ptr<StagingRing>(new StagingRing(static_cast<std::byte*>(memory), capacity));
}

StagingRing::~StagingRing() { ::munmap(memory_, capacity_); }

bool StagingRing::try_place(uint64_t bytes, uint64_t& position) {
  if (reserved_ == released_) {
    // Empty: begin at the start of the mapping again, where the memory is warm and a large record fits.
    const uint64_t start = round_up(reserved_, capacity_);
    reserved_ = claimed_ = passed_on_ = collected_ = released_ = start;
  }
  const uint64_t offset = reserved_ % capacity_;
  const uint64_t to_end = capacity_ - offset;
  const auto fits = [&](uint64_t padding) { return reserved_ - released_ + padding + bytes <= capacity_; };
  // Go back to the start at the end of the mapping, and sooner where that saves touching new memory: the first touch
  // of a page costs far more than the copy into it, and a small recording should stay small.
  const bool back_to_start = bytes > to_end || (offset + bytes > touched_ && fits(to_end));
  if (!fits(back_to_start ? to_end : 0)) return false;
  if (back_to_start) reserved_ += (new (at(reserved_)) Record{to_end, true, true})->bytes;
  position = reserved_;
  reserved_ += bytes;
  touched_ = std::max(touched_, position % capacity_ + bytes);
  return true;
}

StagingRing::Record* StagingRing::reserve(uint64_t body_bytes, Wait wait, const std::function<bool()>& admit) {
  const uint64_t bytes = round_up(sizeof(Record) + body_bytes, kAlignment);
  std::unique_lock lock(mutex_);
  const auto my_turn = [&] { return !streaming_ || streamer_ == std::this_thread::get_id(); };
  uint64_t position = 0;
  while (true) {
    if (shut_ || bytes > capacity_) return nullptr;
    if (my_turn()) {
      // admit() may number the record, so it runs only once there is room.
      if (try_place(bytes, position)) {
        if (admit()) break;
        reserved_ = position;
        return nullptr;
      }
    }
    if (wait == Wait::kNever) return nullptr;
    ++waiting_for_room_;
    passed_.notify_one();
    published_.notify_one();
    room_.wait(lock);
    --waiting_for_room_;
  }
  return new (at(position)) Record{bytes, false, false};
}

void StagingRing::publish(Record* record, bool urgent) {
  record->published.store(true);
  // Either this load sees the thread asleep, or the thread, before it sleeps, sees the record published.
  if (urgent || fingerprint_asleep_.load()) {
    const std::lock_guard lock(mutex_);
    published_.notify_one();
  }
}

void StagingRing::lock_stream() {
  std::unique_lock lock(mutex_);
  room_.wait(lock, [&] { return !streaming_; });
  streaming_ = true;
  streamer_ = std::this_thread::get_id();
}

void StagingRing::unlock_stream() {
  const std::lock_guard lock(mutex_);
  streaming_ = false;
  room_.notify_all();
}

StagingRing::Record* StagingRing::next_published() {
  std::unique_lock lock(mutex_);
  const auto ready = [&] {
    while (claimed_ < reserved_ && at(claimed_)->padding) {
      claimed_ += at(claimed_)->bytes;
      passed_on_ = claimed_;
    }
    return claimed_ < reserved_ && at(claimed_)->published.load();
  };
  if (!ready() && !published_.wait_for(lock, kLookForWork, ready)) {
    fingerprint_asleep_.store(true);
    published_.wait(lock, ready);
    fingerprint_asleep_.store(false);
  }
  Record* record = at(claimed_);
  claimed_ += record->bytes;
  return record;
}

void StagingRing::pass_on(Record* record) {
  const std::lock_guard lock(mutex_);
  passed_on_ += record->bytes;
  passed_.notify_one();
}

StagingRing::Record* StagingRing::next_passed_on(std::chrono::microseconds linger) {
  std::unique_lock lock(mutex_);
  const auto there = [&] {
    while (collected_ < passed_on_ && at(collected_)->padding) collected_ += at(collected_)->bytes;
    return collected_ < passed_on_;
  };
  if (linger.count() == 0) {
    passed_.wait(lock, there);
  } else {
    passed_.wait_for(lock, linger, [&] { return there() || waiting_for_room_ > 0; });
    if (!there()) return nullptr;
  }
  Record* record = at(collected_);
  collected_ += record->bytes;
  return record;
}

void StagingRing::release() {
  const std::lock_guard lock(mutex_);
  released_ = collected_;
  room_.notify_all();
}

void StagingRing::shut() {
  const std::lock_guard lock(mutex_);
  shut_ = true;
  room_.notify_all();
}

uint64_t StagingRing::peak_bytes() const {
  const std::lock_guard lock(mutex_);
  return touched_;
}

}  // namespace ttap
