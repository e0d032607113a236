#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "cuda/kernels/lanes/divisor.h"
#include "cuda/kernels/lanes/lane_hash.h"
#include "cuda/kernels/launch.h"
#include "fingerprint/hash128.h"
#include "ttap/dtype.h"
#include "ttap/fingerprint.h"

// What the host hands to the fingerprint kernels, by value.
namespace ttap::cuda {

inline constexpr uint32_t kBlockThreads = 256;
inline constexpr uint32_t kWarps = kBlockThreads / 32;

inline constexpr uint64_t kSliceRoundBytes = 2 * kHashBlockBytes;  // what a block of work_by_slices() takes at a time

struct DeviceJob {
  const std::byte* data = nullptr;
  uint64_t bytes = 0;
  const void* rows = nullptr;
  uint64_t row_bytes = 0;
  std::byte* copy_to = nullptr;
  DeviceResult* result = nullptr;
  uint64_t sequence = 0;
  uint16_t first_block = 0;  // of the launch's blocks, those that work on this
  uint16_t blocks = 1;
  DType dtype = DType::kU8;
  bool rows_are_64_bit = true;
  bool is_watched = true;  // the result
  bool is_sketched = true;
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

// Large tensors of one dtype. So few that a block finds its job by comparing.
inline constexpr uint32_t kLargePerLaunch = 16;
inline constexpr uint16_t kNoBlock = UINT16_MAX;
struct LargeBatch {
  alignas(16) uint16_t first_block[kLargePerLaunch];  // kNoBlock where there is no job
  DeviceJob jobs[kLargePerLaunch];
};

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

// Of vectors, and few dimensions: where one lies is a matter of some multiplications. The innermost dimension is first.
struct VectorLayout {
  static constexpr uint32_t kMost = 4;
  uint32_t dims = 1;
  Divisor shape[kMost - 1] = {};  // that of the outermost is not needed
  int64_t strides[kMost] = {};    // in bytes

  TTAP_HD int64_t offset(uint32_t vector) const {
    int64_t offset = 0;
    uint32_t rest = vector;
    TTAP_UNROLL
    for (uint32_t i = 0; i + 1 < kMost; ++i) {
      if (i + 1 >= dims) break;
      const uint32_t above = shape[i].divide(rest);
      offset += static_cast<int64_t>(rest - above * static_cast<uint32_t>(shape[i].by)) * strides[i];
      rest = above;
    }
    return offset + static_cast<int64_t>(rest) * strides[dims - 1];
  }
};
std::optional<VectorLayout> vector_layout(const StridedLayout& layout);  // where it can be one

struct StridedBatch {
  LargeBatch batch;
  VectorLayout layouts[kLargePerLaunch];
};
static_assert(sizeof(StridedBatch) <= 4000);

// ---- scratch ----

// What a block leaves of one column for the block that adds up, which waits for it: stored whole and read whole, so
// that who finds it there has all of it.
struct alignas(16) Cell {
  uint64_t value = 0;
  uint32_t count = 0;
  uint32_t mark = 0;  // odd when it is there; the rest of a sum, but for the low half of its bits
};
inline constexpr uint32_t kMostBlocks = 8192;      // of a launch
struct Scratch {                                   // zero between launches
  Cell cells[kWarps][kMostBlocks];                 // a column for each warp of the block that adds up
  uint64_t sketches[kMostBlocks][kSketchBuckets];  // doubles, of which none is +0: that is one that is not there yet
};
static_assert(sizeof(Scratch) <= kScratchBytes);

}  // namespace ttap::cuda
