#include "cuda/replay_ring.h"

#include <algorithm>
#include <atomic>
#include <new>

#include "core/round_up.h"

namespace ttap::cuda {
namespace {

constexpr uint64_t kEntryAlignment = 64;
constexpr uint64_t kBytesPerBlock = 32 << 10;
constexpr uint64_t kMostCopyBlocks = 32;  // enough to fill the bus
constexpr uint64_t kNeverWait = UINT64_MAX / 2;

// The other side is a device, or a host: what they store is read with the order that they stored it in.
uint64_t load(const uint64_t& value) {
  return std::atomic_ref(const_cast<uint64_t&>(value)).load(std::memory_order_acquire);
}

}  // namespace

Result<std::shared_ptr<ReplayRing>> ReplayRing::create(std::span<const Source> sources, const Options& options) {
  const OnDevice on(options.device);
  const WhileCapturing allocating;
  std::shared_ptr<ReplayRing> ring(new ReplayRing);
  std::vector<PublishSegment> segments;
  uint64_t payload = 0;
  for (const Source& source : sources) {
    ring->offsets_.push_back(payload);
    if (source.bytes > 0) segments.push_back({static_cast<const std::byte*>(source.memory), source.bytes, payload});
    payload = round_up(payload + source.bytes, 16);
  }
  const uint64_t entry_bytes = round_up(sizeof(EntryHead) + payload, kEntryAlignment);
  const uint32_t capacity = std::max(options.capacity, 1U);

  TTAP_ASSIGN(ring->control_memory_, pinned_memory(sizeof(RingControl)));
  ring->control_ = new (ring->control_memory_.get()) RingControl;
  ring->control_->open = 1;
  ring->control_->waits = options.wait_when_full ? 1 : 0;
  TTAP_ASSIGN(ring->entries_, pinned_memory(entry_bytes * capacity));
  TTAP_ASSIGN(ring->state_, device_memory(options.device, sizeof(RingState)));
  const uint64_t table_bytes = std::max<uint64_t>(segments.size(), 1) * sizeof(PublishSegment);
  TTAP_ASSIGN(ring->segments_, device_memory(options.device, table_bytes));

  // On a stream of our own: the caller's may be under capture.
  TTAP_ASSIGN(const Stream stream, make_stream());
  TTAP_ASSIGN(const PinnedMemory table, pinned_memory(table_bytes));
  std::copy(segments.begin(), segments.end(), reinterpret_cast<PublishSegment*>(table.get()));
  Status filled = copy(ring->segments_.get(), table.get(), table_bytes, stream);
  if (filled.ok()) filled = set_to_zero(ring->state_.get(), sizeof(RingState), stream);
  if (filled.ok()) filled = synchronize(stream);
  destroy_stream(stream);
  TTAP_TRY(std::move(filled));

  ring->job_ = {.segments = reinterpret_cast<const PublishSegment*>(ring->segments_.get()),
                .segment_count = static_cast<uint32_t>(segments.size()),
                .entries = ring->entries_.get(),
                .entry_bytes = entry_bytes,
                .capacity = capacity,
                .blocks = static_cast<uint32_t>(std::clamp<uint64_t>(payload / kBytesPerBlock, 1, kMostCopyBlocks)),
                .control = ring->control_,
                .state = reinterpret_cast<RingState*>(ring->state_.get())};
  return ring;
}

Status ReplayRing::publish(Stream stream) const { return launch_publish(job_, stream); }

std::optional<ReplayRing::Entry> ReplayRing::next() {
  while (true) {
    const uint64_t published = load(control_->published);
    if (read_ >= published) return std::nullopt;
    if (control_->waits == 0 && published - read_ > job_.capacity) {
      overwritten_ += published - job_.capacity - read_;
      read_ = published - job_.capacity;
    }
    std::byte* entry = job_.entries + (read_ % job_.capacity) * job_.entry_bytes;
    const auto& head = *reinterpret_cast<const EntryHead*>(entry);
    // A device that is ahead may be writing to it again.
    if (load(head.begun) == read_ + 1 && load(head.ended) == read_ + 1)
      return Entry{read_, {entry + sizeof(EntryHead), job_.entry_bytes - sizeof(EntryHead)}};
    ++overwritten_;
    ++read_;
  }
}

bool ReplayRing::release(const Entry& entry) {
  std::atomic_thread_fence(std::memory_order_acquire);
  const auto& head = *reinterpret_cast<const EntryHead*>(entry.payload.data() - sizeof(EntryHead));
  const bool whole = load(head.begun) == entry.index + 1;
  if (!whole) ++overwritten_;
  read_ = entry.index + 1;
  std::atomic_ref released(control_->released);
  if (released.load(std::memory_order_relaxed) < kNeverWait) released.store(read_, std::memory_order_release);
  return whole;
}

uint64_t ReplayRing::published() const { return load(control_->published); }
uint64_t ReplayRing::skipped() const { return load(control_->skipped); }
uint64_t ReplayRing::overwritten() const {
  const uint64_t published = load(control_->published);
  const bool behind = control_->waits == 0 && published > read_ + job_.capacity;
  return overwritten_ + (behind ? published - read_ - job_.capacity : 0);
}

void ReplayRing::close() {
  std::atomic_ref(control_->open).store(0, std::memory_order_release);
  std::atomic_ref(control_->released).store(kNeverWait, std::memory_order_release);
}

}  // namespace ttap::cuda
