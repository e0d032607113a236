#include "cuda/device_staging.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <system_error>

#include "core/round_up.h"
#include "cuda/tensor_pieces.h"

namespace ttap::cuda {
namespace {

constexpr uint64_t kPage = 4096;  // what goes to the disk round the page cache lies on whole ones
// From here on a part is copied by itself, on whole pages; smaller ones that are neighbours go together.
constexpr uint64_t kAloneBytes = uint64_t{512} << 10;

}  // namespace

DeviceStaging::DeviceStaging(const Options& options)
    : device_bytes_(options.device_bytes),
      pinned_bytes_(options.pinned_bytes / kPage * kPage),
      // A quarter always finds room in the end, wherever the ring stands; and a copy is under way while another is
      // written.
      largest_part_(std::min(device_bytes_, pinned_bytes_) / 4 / kPage * kPage) {}

Result<std::unique_ptr<DeviceStaging>> DeviceStaging::create(const Options& options) {
  for (const uint64_t bytes : {options.device_bytes, options.pinned_bytes})
    if (bytes < kLeastBytes)
      return Error{.code = ErrorCode::kInvalidArgument,
                   .message = fmt::format("{} bytes of staging memory; at least {} are needed", bytes, kLeastBytes)};
  std::unique_ptr<DeviceStaging> staging(new DeviceStaging(options));
  const WhileCapturing allocating;
  TTAP_ASSIGN(staging->pinned_memory_, pinned_memory(staging->pinned_bytes_ + kPage));
  const auto begin = reinterpret_cast<uintptr_t>(staging->pinned_memory_.get());
  staging->pinned_ = staging->pinned_memory_.get() + (round_up(begin, kPage) - begin);
  try {
    staging->mover_ = std::thread([self = staging.get()] { self->run_mover(); });
  } catch (const std::system_error& error) {
    return Error{ErrorCode::kIo, fmt::format("cannot start the thread that moves tensors: {}", error.what())};
  }
  return staging;
}

DeviceStaging::~DeviceStaging() { stop(); }

void DeviceStaging::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (mover_.joinable()) mover_.join();
  const std::lock_guard turn(turn_);
  stopped_ = true;
  rings_.clear();
  pinned_memory_.reset();
}

std::optional<Error> DeviceStaging::first_error() const {
  const std::lock_guard lock(mutex_);
  return first_error_;
}

void DeviceStaging::note(const Error& error) {
  const std::lock_guard lock(mutex_);
  if (!first_error_) first_error_ = error;
}

// ---- the model's threads ----

Status DeviceStaging::prepare(int device) {
  if (stopped_) return Error{.code = ErrorCode::kInvalidArgument, .message = "the recorder is closed"};
  auto& ring = rings_[device];
  if (ring == nullptr) {
    // Less than it should be holds the stream up sooner, but nothing is lost.
    auto made = DeviceRing::create(device, device_bytes_);
    for (uint64_t bytes = device_bytes_ / 2; !made.ok() && bytes >= 4 * largest_part_; bytes /= 2)
      made = DeviceRing::create(device, bytes);
    if (!made.ok()) return std::move(made).error();
    ring = std::move(made).value();
  }
  if (!ring->given_up()) return {};
  const std::optional<Error> why = first_error();
  return Error{.code = ErrorCode::kIo,
               .message = fmt::format("nothing comes from device {} any more: {}", device,
                                      why ? why->describe() : std::string("it failed"))};
}

bool DeviceStaging::has_room_for(const TensorView& view, int device) const {
  std::vector<uint64_t> sizes;
  if (byte_count(view) <= largest_part_) {
    sizes = {byte_count(view)};
  } else {
    for (TensorPieces pieces(view, largest_part_); const auto piece = pieces.next();)
      sizes.push_back(byte_count(*piece));
  }
  return rings_.at(device)->has_room_for(sizes);
}

Result<DeviceStaging::Queued> DeviceStaging::snapshot(DeviceRing& ring, FingerprintJob job, void* scratch,
                                                      Stream stream) {
  const uint64_t bytes = byte_count(job.view);
  TTAP_ASSIGN(EventHandle taken, ring.events().take());
  Queued queued{&ring, ring.reserve(bytes), bytes, stream, taken};
  const auto enqueue = [&]() -> Status {
    TTAP_TRY(ring.wait_for_room(queued.position, bytes, stream));
    job.copy_to = ring.at(queued.position);
    if (job.result == nullptr && is_contiguous(job.view)) {
      TTAP_TRY(copy(job.copy_to, job.view.data, bytes, stream));
    } else {
      if (job.result == nullptr) job.result = ring.unread_result();
      TTAP_TRY(launch_fingerprints({&job, 1}, scratch, stream));
    }
    return record(taken, stream);
  };
  const Status enqueued = enqueue();
  if (enqueued.ok()) return queued;
  ring.events().give_back(taken);
  return enqueued.error();
}

Status DeviceStaging::take(FingerprintJob job, int device, void* scratch, Stream stream) {
  DeviceRing& ring = *rings_.at(device);
  const auto queued = snapshot(ring, job, scratch, stream);
  push(queued.ok() ? *queued : Queued{.ring = &ring, .sound = false});
  if (queued.ok()) return {};
  note(queued.error());
  return queued.error();
}

Status DeviceStaging::take_in_parts(const TensorView& view, int device, void* scratch, Stream stream) {
  DeviceRing& ring = *rings_.at(device);
  TensorPieces pieces(view, largest_part_);
  while (const auto piece = pieces.next()) {
    auto queued = snapshot(ring, {.view = *piece}, scratch, stream);
    if (!queued.ok()) {
      push({.ring = &ring, .sound = false});
      note(queued.error());
      return queued.error();
    }
    queued->last = pieces.done();
    push(*queued);
  }
  return {};
}

void DeviceStaging::push(const Queued& queued) {
  const std::lock_guard lock(mutex_);
  queue_.push_back(queued);
  changed_.notify_all();
}

// ---- the mover ----

void DeviceStaging::run_mover() {
  (void)pthread_setname_np(pthread_self(), "ttap-move");
  const WhileCapturing always;  // whatever the program captures meanwhile is none of this thread's work
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return !queue_.empty() || stopping_; });
    if (queue_.empty()) return;
    const std::vector<Queued> run = next_run();
    const Queued& first = run.front();
    DeviceRing& ring = *first.ring;
    const uint64_t bytes = run.back().position + run.back().bytes - first.position;
    const uint64_t alignment = bytes >= kAloneBytes ? kPage : DeviceRing::kAlignment;
    mover_waits_ = true;
    std::optional<uint64_t> place;
    changed_.notify_all();
    changed_.wait(lock, [&] { return (place = place_for(bytes, alignment)) || stopping_; });
    mover_waits_ = false;
    if (!place) return;
    reserved_ = *place + bytes;
    lock.unlock();

    std::byte* to = pinned_ + *place % pinned_bytes_;
    const OnDevice on(ring.device());
    bool sound = first.sound && !ring.given_up();
    EventHandle arrived = nullptr;
    if (sound) {
      auto event = ring.events().take();
      if (event.ok()) arrived = *event;
      const Status moved = event.ok() ? move(run, to, arrived) : Status(event.error());
      if (!moved.ok()) {
        sound = false;
        if (arrived != nullptr) ring.events().give_back(arrived);
        note(moved.error());
        ring.give_up();
      }
    }
    for (const Queued& queued : run)
      if (queued.taken != nullptr) ring.events().give_back(queued.taken);

    lock.lock();
    for (const Queued& queued : run) {
      const uint64_t offset = queued.position - first.position;
      moved_.push_back({&ring,
                        &queued == &run.front() && sound ? arrived : nullptr,
                        {to + offset, queued.bytes},
                        *place + offset + queued.bytes,
                        queued.last,
                        sound});
    }
    changed_.notify_all();
  }
}

// The front of the queue, and as many of those behind it as one copy can take along.
std::vector<DeviceStaging::Queued> DeviceStaging::next_run() {
  std::vector<Queued> run;
  while (!queue_.empty()) {
    const Queued& next = queue_.front();
    if (!run.empty()) {
      const Queued& last = run.back();
      const bool neighbours = next.ring == last.ring && next.sound && last.sound &&
                              next.position == last.position + round_up(last.bytes, DeviceRing::kAlignment) &&
                              next.ring->at(next.position) > last.ring->at(last.position);
      if (!neighbours || next.position + next.bytes - run.front().position >= std::min(kAloneBytes, largest_part_))
        break;
    }
    run.push_back(next);
    queue_.pop_front();
    if (run.back().bytes >= kAloneBytes) break;
  }
  return run;
}

std::optional<uint64_t> DeviceStaging::place_for(uint64_t bytes, uint64_t alignment) const {
  const uint64_t aligned = round_up(reserved_, alignment);
  const uint64_t to_end = pinned_bytes_ - aligned % pinned_bytes_;
  const uint64_t start = bytes > to_end ? aligned + to_end : aligned;
  return start + bytes - released_ <= pinned_bytes_ ? std::optional(start) : std::nullopt;
}

Status DeviceStaging::move(std::span<const Queued> run, std::byte* to, EventHandle arrived) {
  DeviceRing& ring = *run.front().ring;
  const Stream side = ring.side_stream();
  // The last snapshot of each stream: the others came before it.
  std::vector<Stream> waited_for;
  for (size_t i = run.size(); i-- > 0;) {
    if (std::ranges::find(waited_for, run[i].stream) != waited_for.end()) continue;
    waited_for.push_back(run[i].stream);
    TTAP_TRY(wait(side, run[i].taken));
  }
  const uint64_t end = run.back().position + run.back().bytes;
  TTAP_TRY(copy(to, ring.at(run.front().position), end - run.front().position, side));
  TTAP_TRY(ring.free_up_to(end));
  return record(arrived, side);
}

// ---- the writer ----

std::optional<DeviceStaging::Part> DeviceStaging::next() {
  std::unique_lock lock(mutex_);
  const auto stuck = [&] { return mover_waits_ && released_ < handed_out_; };
  changed_.wait(lock, [&] { return !moved_.empty() || stuck(); });
  if (moved_.empty()) return std::nullopt;
  const Moved moved = moved_.front();
  moved_.pop_front();
  handed_out_ = moved.end;
  lock.unlock();
  if (moved.arrived != nullptr) {
    const WhileCapturing waiting;
    const Status arrived = synchronize(moved.arrived);
    last_arrival_sound_ = arrived.ok();
    moved.ring->events().give_back(moved.arrived);
    if (!arrived.ok()) {
      note(arrived.error());
      moved.ring->give_up();
    }
  } else if (!moved.sound) {
    return Part{{}, moved.last, false};
  }
  return Part{moved.bytes, moved.last, last_arrival_sound_};
}

void DeviceStaging::release() {
  const std::lock_guard lock(mutex_);
  released_ = handed_out_;
  changed_.notify_all();
}

}  // namespace ttap::cuda
