#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/kernels/launch.h"
#include "fingerprint/hash128.h"
#include "fingerprint/stats_part.h"
#include "ttap/dtype.h"

// What the host hands to the fingerprint kernels, by value.
namespace ttap::cuda {

inline constexpr uint32_t kBlockThreads = 256;
inline constexpr uint32_t kWarps = kBlockThreads / 32;

struct DeviceJob {
  const std::byte* data = nullptr;
  uint64_t row_bytes = 0;
  uint64_t row_count = 0;
  const void* rows = nullptr;
  std::byte* copy_to = nullptr;
  DeviceResult* result = nullptr;
  uint64_t sequence = 0;
  uint32_t first_block = 0;  // of the launch's blocks, those that work on this
  uint32_t blocks = 1;
  DType dtype = DType::kU8;
  bool rows_are_64_bit = true;
};

// As many as fit the 4 KiB of parameters that every driver takes.
inline constexpr uint32_t kJobsPerLaunch = 48;
struct Batch {
  uint32_t count = 0;
  DeviceJob jobs[kJobsPerLaunch];
};
static_assert(sizeof(Batch) <= 4000);

// Elements in C order that do not lie so. The unit is the largest number of bytes, up to 16, that always lie together
// and on a multiple of their size; `shape` and `strides` (in bytes) are of units, neighbouring dimensions merged.
struct StridedLayout {
  static constexpr uint32_t kMost = kMaxDims + 1;
  uint32_t dims = 0;
  uint32_t unit = 1;
  uint64_t shape[kMost];
  int64_t strides[kMost];
};
StridedLayout strided_layout(const TensorView& view);

// ---- scratch ----

// What one block leaves for the last one.
struct alignas(16) Partial {
  HashPair digest;
  StatsPart stats;
  uint64_t unused = 0;
};
static_assert(sizeof(Partial) == 128);

inline constexpr size_t kTicketBytes = 4096;
struct Scratch {
  uint32_t tickets[kTicketBytes / sizeof(uint32_t)];  // one for each job of a launch; zero between launches
  Partial partials[(kScratchBytes - kTicketBytes) / sizeof(Partial)];
};
static_assert(sizeof(Scratch) == kScratchBytes);
inline constexpr uint32_t kMostBlocks = sizeof(Scratch::partials) / sizeof(Partial);

}  // namespace ttap::cuda
