#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "cuda/runtime/runtime.h"
#include "ttap/api.h"

namespace ttap::cuda {

// Memory with an owner. Freeing waits for the device, which ends every capture that is under way in the process, and
// may be asked for where CUDA must not be called. So it is only put aside when its owner goes, by whatever thread.
struct TTAP_API FreeOnDevice {
  int device = 0;
  void operator()(std::byte* memory) const;
};
struct TTAP_API FreePinned {
  void operator()(std::byte* memory) const;
};
using DeviceMemory = std::unique_ptr<std::byte, FreeOnDevice>;
using PinnedMemory = std::unique_ptr<std::byte, FreePinned>;

TTAP_API Result<DeviceMemory> device_memory(int device, size_t bytes);
Result<PinnedMemory> pinned_memory(size_t bytes);  // zeroed

// Graphs are being captured, somewhere in the process, as far as is known; nests.
TTAP_API void capturing(int by);
extern TTAP_API std::atomic<int> captures_under_way;  // asked for with every operator of a program
inline bool is_capturing() { return captures_under_way.load(std::memory_order_relaxed) > 0; }

// Frees it. Only while no graph is captured: see free_what_was_put_aside() of kept_by_graphs.h.
void free_memory_put_aside();

}  // namespace ttap::cuda
