#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "cuda/kernels/launch.h"
#include "cuda/runtime/memory.h"
#include "cuda/runtime/runtime.h"

namespace ttap::cuda {

// What the nodes of a captured graph leave in device memory, brought to the host once per replay: the last node copies
// it to the next entry of a ring in pinned memory. The index is counted on the device, so replays may be queued, and
// nothing of the host is needed for them to run.
class ReplayRing {
 public:
  struct Options {
    int device = 0;
    uint32_t capacity = 16;       // entries
    bool wait_when_full = false;  // a replay waits for the host; else the oldest entry is overwritten and counted
  };
  // What device memory the payload consists of; the segments follow one another in it, each on a multiple of 16.
  struct Source {
    const void* memory;
    uint64_t bytes;
  };
  // Allocates; may be called while a graph is captured.
  static Result<std::shared_ptr<ReplayRing>> create(std::span<const Source> sources, const Options& options);

  // Puts the copy on `stream`: into the graph that is captured there, or, outside a capture, once.
  Status publish(Stream stream) const;

  // The oldest entry that was not read, or nothing. Never waits for the device.
  struct Entry {
    uint64_t index;                      // of the replay, from 0
    std::span<const std::byte> payload;  // good until release()
  };
  std::optional<Entry> next();
  // Done with it. False: it was overwritten while it was being read, and what was read is void (counted).
  bool release(const Entry& entry);
  // Where in the payload source number `i` begins.
  uint64_t offset(size_t i) const { return offsets_[i]; }

  uint64_t published() const;    // by the device, so far
  uint64_t overwritten() const;  // before they were read
  uint64_t skipped() const;      // replays after close()

  // Replays after this publish nothing, and none waits any more.
  void close();

 private:
  ReplayRing() = default;

  PinnedMemory control_memory_;
  PinnedMemory entries_;
  DeviceMemory state_;
  DeviceMemory segments_;
  RingControl* control_ = nullptr;
  PublishJob job_;
  std::vector<uint64_t> offsets_;
  uint64_t read_ = 0;
  uint64_t overwritten_ = 0;
};

}  // namespace ttap::cuda
