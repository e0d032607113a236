#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "cuda/replay_ring.h"
#include "cuda/scratch_table.h"

namespace ttap::cuda {

// The device memory that the taps of one captured graph write to, and the ring through which each replay brings it to
// the host. The graph keeps it: replays write to it for as long as there are any, whoever has lost interest meanwhile.
// One thread at a time.
class TTAP_API GraphMemory {
 public:
  // For the graph that is captured on `stream`.
  static Result<std::shared_ptr<GraphMemory>> create(int device, Stream stream);
  ~GraphMemory();
  GraphMemory(const GraphMemory&) = delete;
  GraphMemory& operator=(const GraphMemory&) = delete;

  struct Tap {
    uint32_t number = 0;
    DeviceResult* result = nullptr;
    std::byte* copy = nullptr;  // null when no bytes are wanted
  };
  Result<Tap> add_tap(uint64_t copy_bytes);
  // For launches that are captured on `stream`.
  Result<void*> scratch(Stream stream);

  uint32_t taps() const { return taps_; }
  uint64_t copied_bytes() const { return copied_bytes_; }

  // The last node: call it on the stream that the capture ends on, once.
  struct RingOptions {
    uint64_t bytes = uint64_t{64} << 20;  // of pinned memory, roughly; at least two replays
    bool wait_when_full = true;
  };
  Status finish(Stream stream, const RingOptions& options);
  bool is_finished() const { return ring_ != nullptr; }

  // After finish(): replays on the host, one thread at a time.
  ReplayRing& ring() { return *ring_; }
  const DeviceResult& result(const ReplayRing::Entry& entry, uint32_t tap) const;
  std::span<const std::byte> copy(const ReplayRing::Entry& entry, uint32_t tap, uint64_t bytes) const;
  // Replays record nothing from now on, and wait for nobody.
  void close();
  // Whether the graph, and everything made of it, is gone.
  bool graph_is_gone() const;

  int device() const { return device_; }

 private:
  struct Block {
    DeviceMemory memory;
    uint64_t bytes = 0;
    uint64_t used = 0;
  };
  struct Copy {
    uint32_t block = 0;
    uint64_t offset = 0;
  };
  struct GraphSide;

  explicit GraphMemory(int device) : device_(device) {}
  Result<Block*> room(std::vector<Block>& blocks, uint64_t bytes, uint64_t block_bytes) const;

  int device_;
  std::shared_ptr<GraphSide> graph_side_;
  std::shared_ptr<std::atomic<bool>> gone_ = std::make_shared<std::atomic<bool>>(false);
  std::vector<Block> results_;
  std::vector<Block> copies_;
  std::map<Stream, std::shared_ptr<SharedScratch>> scratches_;
  uint32_t taps_ = 0;
  uint64_t copied_bytes_ = 0;
  std::vector<Copy> copy_of_tap_;
  std::shared_ptr<ReplayRing> ring_;
};

}  // namespace ttap::cuda
