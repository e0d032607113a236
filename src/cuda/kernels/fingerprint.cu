#include <algorithm>

#include "cuda/kernels/block_work.cuh"
#include "cuda/kernels/lane_of_dtype.cuh"
#include "cuda/kernels/launch.h"
#include "cuda/kernels/launch_status.h"
#include "cuda/kernels/single_launch.h"

// Small tensors in C order share a launch; the others get one each (large.cu, strided.cu).
namespace ttap::cuda {
namespace {

constexpr uint64_t kSmallBytes = uint64_t{4} << 20;
constexpr uint64_t kSliceRoundBytes = 2 * kHashBlockBytes;  // what a block of work_by_slices() takes at a time
constexpr uint64_t kMostRounds = 16;
constexpr int kSmallBlocksPerMultiprocessor = 2;
// Where the end of a launch counts: no more blocks than the last one adds up in one go (columns.cuh).
constexpr uint64_t kMediumBytes = uint64_t{64} << 20;
constexpr uint64_t kMediumBlocks = 32 * detail::kRowsAtOnce;
// Of a large tensor, for each warp: plain sums of short squares are good for some thousands of values.
constexpr uint64_t kHashBlocksPerWarp = 256;

__global__ void __launch_bounds__(kBlockThreads, kSmallBlocksPerMultiprocessor)
    fingerprint_small(const __grid_constant__ Batch batch, Scratch* scratch) {
  __shared__ Unconstructed<BlockShared<ByteLane<8>>> shared;  // the largest, for every lane
  const uint32_t number = batch.job_of_block[blockIdx.x];
  const DeviceJob& job = batch.jobs[number];
  const PackedSource source{job.data};
  with_lane<ByteLane<8>>(job.dtype, [&]<class Lane>(Lane*) {
    static_assert(sizeof(BlockShared<Lane>) <= sizeof shared);
    work_by_slices<Lane>(job, number, source, *scratch, reinterpret_cast<BlockShared<Lane>&>(shared));
  });
}

constexpr uint64_t parts(uint64_t whole, uint64_t size) { return (whole + size - 1) / size; }

uint64_t bytes_of(const DeviceJob& job) { return job.row_count * job.row_bytes; }

DeviceJob device_job(const FingerprintJob& job) {
  const TensorView& view = job.view;
  DeviceJob made;
  made.data = static_cast<const std::byte*>(view.data);
  made.row_count = view.ndim() == 0 ? 1 : static_cast<uint64_t>(view.shape[0]);
  made.row_bytes = made.row_count == 0 ? 0 : byte_count(view) / made.row_count;
  made.rows = job.rows.count;
  made.rows_are_64_bit = job.rows.is_64_bit;
  made.copy_to = static_cast<std::byte*>(job.copy_to);
  made.result = job.result;
  made.is_watched = job.is_watched;
  made.sequence = job.sequence;
  made.dtype = view.dtype;
  return made;
}

bool is_packed(const TensorView& view) {
  return is_contiguous(view) && reinterpret_cast<uintptr_t>(view.data) % kVectorBytes == 0;
}

uint16_t blocks_for_large(uint64_t bytes, uint64_t resident) {
  if (bytes <= kMediumBytes) resident = std::min(resident, kMediumBlocks);
  const uint64_t hash_blocks = bytes / kHashBlockBytes;
  const uint64_t wanted = parts(hash_blocks, 2 * kWarps);
  if (wanted <= resident) return static_cast<uint16_t>(std::max<uint64_t>(wanted, 1));
  // Every block the same share: whole waves of them.
  const uint64_t waves = parts(hash_blocks, resident * kWarps * kHashBlocksPerWarp);
  return static_cast<uint16_t>(std::min<uint64_t>({waves * resident, wanted, kMostBlocks}));
}

class Launcher {
 public:
  Launcher(Scratch* scratch, Stream stream, uint64_t multiprocessors)
      : scratch_(scratch), stream_(stream), multiprocessors_(multiprocessors) {}

  Status add(const FingerprintJob& asked) {
    DeviceJob job = device_job(asked);
    const uint64_t bytes = bytes_of(job);
    const uint64_t rounds = std::max<uint64_t>(parts(bytes, kSliceRoundBytes), 1);
    if (bytes != 0 && !is_packed(asked.view)) {
      job.blocks = static_cast<uint16_t>(std::min<uint64_t>({rounds, multiprocessors_ * 8, kMostBlocks}));
      launch_strided(job, strided_layout(asked.view), scratch_, stream_);
      return launched("fingerprint of a strided tensor");
    }
    if (bytes > kSmallBytes) {
      job.blocks = blocks_for_large(bytes, multiprocessors_ * blocks_per_multiprocessor(job.dtype));
      launch_large(job, scratch_, stream_);
      return launched("fingerprint of a large tensor");
    }
    if (count_ == kJobsPerLaunch) TTAP_TRY(flush());
    batch_.jobs[count_++] = job;
    rounds_ += rounds;
    return {};
  }

  Status flush() {
    if (count_ == 0) return {};
    // As many blocks as run at once.
    const uint64_t resident = multiprocessors_ * kSmallBlocksPerMultiprocessor;
    const uint64_t per_block = std::clamp<uint64_t>(parts(rounds_, resident), 1, kMostRounds);
    uint32_t blocks = 0;
    for (uint32_t i = 0; i < count_; ++i) {
      DeviceJob& job = batch_.jobs[i];
      job.first_block = static_cast<uint16_t>(blocks);
      job.blocks = static_cast<uint16_t>(std::max<uint64_t>(parts(bytes_of(job), kSliceRoundBytes * per_block), 1));
      std::fill_n(batch_.job_of_block + blocks, job.blocks, static_cast<uint8_t>(i));
      blocks += job.blocks;
    }
    static_assert(kJobsPerLaunch * (kSmallBytes / kSliceRoundBytes / kMostRounds + 1) <= kBlocksPerLaunch);
    if (count_ == 1)
      launch_small(batch_.jobs[0], scratch_, stream_);
    else
      fingerprint_small<<<blocks, kBlockThreads, 0, stream_>>>(batch_, scratch_);
    count_ = 0;
    rounds_ = 0;
    return launched("fingerprints of small tensors");
  }

 private:
  Scratch* scratch_;
  Stream stream_;
  uint64_t multiprocessors_;
  Batch batch_;
  uint32_t count_ = 0;
  uint64_t rounds_ = 0;
};

}  // namespace

Status launch_fingerprints(std::span<const FingerprintJob> jobs, void* scratch, Stream stream) {
  int device = 0;
  if (const cudaError_t error = cudaGetDevice(&device); error != cudaSuccess) return launched("the current device");
  Launcher launcher(static_cast<Scratch*>(scratch), stream,
                    static_cast<uint64_t>(std::max(multiprocessors(device), 1)));
  for (const FingerprintJob& job : jobs) TTAP_TRY(launcher.add(job));
  return launcher.flush();
}

}  // namespace ttap::cuda
