#include "cuda/graph_memory.h"

#include <algorithm>

#include "cuda/kept_by_graphs.h"

namespace ttap::cuda {
namespace {

constexpr uint64_t kResultsPerBlock = 2048;
constexpr uint64_t kCopyBlockBytes = 16 << 20;
constexpr uint64_t kCopyAlignment = 256;
constexpr uint32_t kMostEntries = 1024;

}  // namespace

// What the nodes of the graph use, once this object has lost interest in it.
struct GraphMemory::GraphSide {
  std::vector<Block> results, copies;
  std::map<Stream, std::shared_ptr<SharedScratch>> scratches;
  std::shared_ptr<ReplayRing> ring;
};

Result<std::shared_ptr<GraphMemory>> GraphMemory::create(int device, Stream stream) {
  std::shared_ptr<GraphMemory> memory(new GraphMemory(device));
  memory->graph_side_ = std::make_shared<GraphSide>();
  TTAP_TRY(keep_until_graph_is_gone(stream, memory->graph_side_, memory->gone_));
  return memory;
}

GraphMemory::~GraphMemory() {
  close();
  graph_side_->results = std::move(results_);
  graph_side_->copies = std::move(copies_);
  graph_side_->scratches = std::move(scratches_);
  graph_side_->ring = std::move(ring_);
}

Result<GraphMemory::Block*> GraphMemory::room(std::vector<Block>& blocks, uint64_t bytes, uint64_t block_bytes) const {
  if (blocks.empty() || blocks.back().bytes - blocks.back().used < bytes) {
    const WhileCapturing allocating;
    const uint64_t size = std::max(bytes, block_bytes);
    TTAP_ASSIGN(DeviceMemory memory, zeroed_device_memory(device_, size));
    blocks.push_back({std::move(memory), size, 0});
  }
  return &blocks.back();
}

Result<GraphMemory::Tap> GraphMemory::add_tap(uint64_t copy_bytes) {
  TTAP_CHECK(ring_ == nullptr);
  TTAP_ASSIGN(Block * results, room(results_, sizeof(DeviceResult), kResultsPerBlock * sizeof(DeviceResult)));
  Tap tap{.number = taps_};
  Copy copy;
  if (copy_bytes > 0) {
    const uint64_t bytes = (copy_bytes + kCopyAlignment - 1) / kCopyAlignment * kCopyAlignment;
    TTAP_ASSIGN(Block * copies, room(copies_, bytes, kCopyBlockBytes));
    copy = {static_cast<uint32_t>(copies_.size() - 1), copies->used};
    tap.copy = copies->memory.get() + copies->used;
    copies->used += bytes;
    copied_bytes_ += bytes;
  }
  tap.result = reinterpret_cast<DeviceResult*>(results->memory.get() + results->used);
  results->used += sizeof(DeviceResult);
  copy_of_tap_.push_back(copy);
  ++taps_;
  return tap;
}

Result<void*> GraphMemory::scratch(Stream stream) {
  std::shared_ptr<SharedScratch>& scratch = scratches_[stream];
  if (scratch == nullptr) {
    TTAP_ASSIGN(scratch, scratch_for(device_, stream));
  }
  return static_cast<void*>(scratch->memory.get());
}

Status GraphMemory::finish(Stream stream, const RingOptions& options) {
  TTAP_CHECK(ring_ == nullptr);
  std::vector<ReplayRing::Source> sources;
  uint64_t bytes = sizeof(EntryHead);
  for (const auto* blocks : {&results_, &copies_})
    for (const Block& block : *blocks) {
      sources.push_back({block.memory.get(), block.used});
      bytes += block.used;
    }
  const auto capacity = static_cast<uint32_t>(std::clamp<uint64_t>(options.bytes / bytes, 2, kMostEntries));
  TTAP_ASSIGN(ring_, ReplayRing::create(sources, {device_, capacity, options.wait_when_full}));
  const OnDevice on(device_);
  return ring_->publish(stream);
}

const DeviceResult& GraphMemory::result(const ReplayRing::Entry& entry, uint32_t tap) const {
  const uint64_t offset = ring_->offset(tap / kResultsPerBlock) + tap % kResultsPerBlock * sizeof(DeviceResult);
  return *reinterpret_cast<const DeviceResult*>(entry.payload.data() + offset);
}

std::span<const std::byte> GraphMemory::copy(const ReplayRing::Entry& entry, uint32_t tap, uint64_t bytes) const {
  const Copy& copy = copy_of_tap_[tap];
  return entry.payload.subspan(ring_->offset(results_.size() + copy.block) + copy.offset, bytes);
}

void GraphMemory::close() {
  if (ring_ != nullptr) ring_->close();
}

bool GraphMemory::graph_is_gone() const { return gone_->load(std::memory_order_acquire); }

}  // namespace ttap::cuda
