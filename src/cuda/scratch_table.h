#pragma once

#include <memory>

#include "cuda/runtime/memory.h"
#include "cuda/runtime/runtime.h"

namespace ttap::cuda {

// Device memory that is zero, for launch_fingerprints(); shared by all that runs one after the other, which is what
// was captured on one stream in one capture, or what runs on a stream outside any.
struct SharedScratch {
  DeviceMemory memory;
};

// May be called while a graph is captured.
Result<std::shared_ptr<SharedScratch>> scratch_for(int device, Stream stream);

// Device memory that is zero. May be called while a graph is captured.
Result<DeviceMemory> zeroed_device_memory(int device, size_t bytes);

}  // namespace ttap::cuda
