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
  uint16_t first_block = 0;  // of the launch's blocks, those that work on this
  uint16_t blocks = 1;
  DType dtype = DType::kU8;
  bool rows_are_64_bit = true;
  bool is_watched = true;  // the result
};
static_assert(sizeof(DeviceJob) == 64);

// As many as fit the 4 KiB of parameters that every driver takes. Which job is a block's is written down: a search
// would wait for parameters to arrive, one after the other.
inline constexpr uint32_t kJobsPerLaunch = 40;
inline constexpr uint32_t kBlocksPerLaunch = 1360;
struct Batch {
  uint8_t job_of_block[kBlocksPerLaunch];
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

// What blocks leave for the last one: a number of each kind, side by side for all blocks.
inline constexpr size_t kTicketBytes = 4096;
inline constexpr uint32_t kMostBlocks = (kScratchBytes - kTicketBytes) / (16 * sizeof(uint64_t));
struct Scratch {
  uint32_t tickets[kTicketBytes / sizeof(uint32_t)];  // one for each job of a launch; zero between launches
  uint64_t columns[16][kMostBlocks];
};
static_assert(sizeof(Scratch) == kScratchBytes);

}  // namespace ttap::cuda
