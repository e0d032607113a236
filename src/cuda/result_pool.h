#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "cuda/kernels/device_result.h"
#include "cuda/runtime/memory.h"
#include "cuda/runtime/runtime.h"

namespace ttap::cuda {

// A fingerprint on its way from a device.
struct PendingResult {
  DeviceResult* result = nullptr;
  uint64_t sequence = 0;  // that says it has arrived
  int device = 0;
  Stream stream = nullptr;  // that it is launched on
  explicit operator bool() const { return result != nullptr; }
};
inline bool has_arrived(const PendingResult& pending) { return has_arrived(*pending.result, pending.sequence); }

// Places in pinned memory for fingerprints that are on their way from a device. One pool serves the process; it grows
// to a bound and is never given back.
class TTAP_API ResultPool {
 public:
  static ResultPool& of_process();

  // A place for one; none when the bound is reached (or memory is refused).
  PendingResult take(int device, Stream stream);
  // It has arrived, or nothing was launched that would write to it.
  void give_back(const PendingResult& pending);
  // Nobody waits for it. It may still be written to, so it is given back once it has arrived.
  void abandon(const PendingResult& pending);

  // Waits until it has arrived, and gives it back; as long as its stream takes, which may stand still for minutes (a
  // collective, a checkpoint). Nothing when its launch has failed, or the device (then at once from then on), or when
  // its stream has done everything and left none: a graph was captured there unseen. Call it only for what was launched
  // or lost, and never on the model's thread.
  struct Intervals {  // between two looks
    std::chrono::milliseconds at_device{500};
    std::chrono::milliseconds at_stream{10'000};
  };
  std::optional<DeviceResult> wait(const PendingResult& pending, Intervals intervals);
  std::optional<DeviceResult> wait(const PendingResult& pending) { return wait(pending, Intervals{}); }

  uint64_t outstanding();  // taken and not given back

 private:
  static constexpr size_t kBlock = 4096;            // results allocated at once
  static constexpr size_t kMost = size_t{1} << 20;  // results in all, 150 MB

  void sweep();
  bool has_failed(int device) const;

  mutable std::mutex mutex_;
  std::vector<PinnedMemory> blocks_;
  std::vector<PendingResult> abandoned_;
  std::vector<int> failed_devices_;
  std::vector<DeviceResult*> free_;
  size_t made_ = 0;
  uint64_t next_sequence_ = 1;
};

}  // namespace ttap::cuda
