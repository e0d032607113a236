#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include "cuda/runtime/memory.h"
#include "cuda/runtime/runtime.h"

namespace ttap::cuda {

// What the fingerprint kernel needs beside a tensor, one for each stream: launches on one stream follow one another, so
// they share it; those on two streams may run side by side. One table serves the process; nothing is given back, since
// a launch may still use it.
class TTAP_API StreamScratch {
 public:
  static StreamScratch& of_process();

  // kScratchBytes of device memory for launches on `stream`, which is of the current device, `device`. Made when the
  // stream is first seen, also while another one is captured; `stream` itself must not be.
  Result<void*> of(int device, Stream stream);

 private:
  static constexpr size_t kMost = 256;  // streams, and MiB of all devices together

  std::mutex mutex_;
  std::map<std::pair<int, uint64_t>, DeviceMemory> made_;  // by device and number of the stream
};

}  // namespace ttap::cuda
