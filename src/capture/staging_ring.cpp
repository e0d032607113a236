#include "capture/staging_ring.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "capture/process.h"
#include "core/round_up.h"

namespace ttap {
namespace {

// How long the writer looks for more work before it sleeps for good. While it looks, producers need not wake it, which
// would cost them a system call per tensor.
constexpr std::chrono::microseconds kLookForWork{500};
// So much memory is used however small a recording is: thousands of records whose bytes are elsewhere.
constexpr uint64_t kAlwaysTouched = uint64_t{4} << 20;
// A disk that takes longer than this for what it was given hangs, or may as well.
constexpr std::chrono::seconds kHangs{5};

}  // namespace

Result<std::unique_ptr<StagingRing>> StagingRing::create(uint64_t capacity) {
  capacity = capacity / kAlignment * kAlignment;
  void* memory = ::mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return Error{
        .code = ErrorCode::kIo,
        .message = fmt::format("cannot reserve {} bytes of staging memory: {}", capacity, std::strerror(errno)),
        .hint = "set a smaller staging size"};
  // Fewer page faults on the model's thread, also after a fork; a kernel that refuses only costs speed.
  (void)::madvise(memory, capacity, MADV_HUGEPAGE);
  (void)::madvise(memory, capacity, MADV_DONTFORK);
  return std::unique_ptr<StagingRing>(new StagingRing(static_cast<std::byte*>(memory), capacity));
}

StagingRing::~StagingRing() { ::munmap(memory_, capacity_); }

std::optional<uint64_t> StagingRing::try_place(uint64_t bytes) {
  if (reserved_ == released_) {
    // Empty: begin at the start of the mapping again, where the memory is warm and a large record fits.
    const uint64_t start = round_up(reserved_, capacity_);
    reserved_ = collected_ = released_ = start;
  }
  const uint64_t offset = reserved_ % capacity_;
  const uint64_t to_end = capacity_ - offset;
  const auto fits = [&](uint64_t padding) { return reserved_ - released_ + padding + bytes <= capacity_; };
  // Go back to the start at the end of the mapping, and sooner where that saves touching new memory: the first touch
  // of a page costs far more than the copy into it. What lies behind is lost until the writer comes by, so only where
  // the writer keeps up; who has to wait for it would rather have had new memory.
  const uint64_t free_at_start = released_ % capacity_;
  const bool keeps_up = reserved_ - released_ <= free_at_start / 4;
  const bool warm = offset >= std::min(capacity_ / 4, kAlwaysTouched);
  const bool back_to_start = bytes > to_end || (offset + bytes > touched_ && warm && keeps_up && fits(to_end));
  if (!fits(back_to_start ? to_end : 0)) return std::nullopt;
  return reserved_ + (back_to_start ? to_end : 0);
}

StagingRing::Record* StagingRing::reserve(uint64_t body_bytes, Wait wait, FunctionRef<bool()> admit) {
  const uint64_t bytes = round_up(sizeof(Record) + body_bytes, kAlignment);
  std::unique_lock lock(mutex_);
  std::optional<uint64_t> ticket;  // once this call waits
  const auto my_turn = [&] {
    if (streaming_) return streamer_ == std::this_thread::get_id();
    return waiting_for_room_.empty() || (ticket && waiting_for_room_.front() == *ticket);
  };
  std::optional<uint64_t> position;
  Watch watch;
  while (true) {
    if (shut_ || bytes > capacity_) break;
    if (my_turn() && (position = try_place(bytes))) break;
    if (wait == Wait::kNever) return nullptr;
    if (!ticket) waiting_for_room_.push_back(*(ticket = next_ticket_++));
    published_.notify_one();
    if (room_.wait_for(lock, kLookInterval) == std::cv_status::no_timeout) continue;
    lock.unlock();
    (void)is_given_up(watch);
    lock.lock();
  }
  if (ticket) {
    std::erase(waiting_for_room_, *ticket);
    room_.notify_all();  // the next in the queue may fit as well
  }
  // admit() may number the record, so it runs only once there is room.
  if (!position || !admit()) return nullptr;
  if (*position != reserved_) new (at(reserved_)) Record{*position - reserved_, true, false, true};
  reserved_ = *position + bytes;
  touched_ = std::max(touched_, *position % capacity_ + bytes);
  return new (at(*position)) Record{bytes, false, reserved_ - released_ > capacity_ / 4, false};
}

void StagingRing::locked(FunctionRef<void()> body) const {
  const std::lock_guard lock(mutex_);
  body();
}

void StagingRing::publish(Record* record, bool urgent) {
  urgent = urgent || record->filling;  // afterwards the record is the writer's
  record->published.store(true);
  // Either this load sees the writer asleep, or the writer, before it sleeps, sees the record published.
  if (urgent || writer_asleep_.load()) {
    const std::lock_guard lock(mutex_);
    published_.notify_one();
  }
}

StagingRing::Stream::Stream(StagingRing& ring) : ring_(ring) {
  std::unique_lock lock(ring_.mutex_);
  ring_.room_.wait(lock, [&] { return !ring_.streaming_; });
  ring_.streaming_ = true;
  ring_.streamer_ = std::this_thread::get_id();
}

StagingRing::Stream::~Stream() {
  const std::lock_guard lock(ring_.mutex_);
  ring_.streaming_ = false;
  ring_.room_.notify_all();
}

StagingRing::Record* StagingRing::next_published(std::chrono::microseconds linger) {
  std::unique_lock lock(mutex_);
  const auto there = [&] {
    while (collected_ < reserved_ && at(collected_)->padding) collected_ += at(collected_)->bytes;
    return collected_ < reserved_ && at(collected_)->published.load();
  };
  if (linger.count() > 0) {
    published_.wait_for(lock, linger, [&] { return there() || !waiting_for_room_.empty(); });
    if (!there()) return nullptr;
  } else if (!there() && !published_.wait_for(lock, kLookForWork, there)) {
    writer_asleep_.store(true);
    published_.wait(lock, there);
    writer_asleep_.store(false);
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

bool StagingRing::is_given_up(Watch& watch) {
  const auto now = std::chrono::steady_clock::now();
  {
    const std::lock_guard lock(mutex_);
    if (watch.released != released_) watch = {now, released_};
    if (given_up_ || now - watch.since < kHangs) return given_up_;
  }
  if (!is_interrupted()) return false;
  given_up_ = true;
  shut();
  return true;
}

uint64_t StagingRing::peak_bytes() const {
  const std::lock_guard lock(mutex_);
  return touched_;
}

}  // namespace ttap
