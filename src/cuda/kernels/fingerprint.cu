#include <algorithm>
#include <vector>

#include "cuda/kernels/lane_of_dtype.cuh"
#include "cuda/kernels/launch.h"
#include "cuda/kernels/launch_status.h"
#include "cuda/kernels/launches.h"
#include "cuda/kernels/work_by_slices.cuh"

// Which launch takes which tensor: small ones in C order share one, large ones of a dtype do (large.cu), and those with
// strides that are not of whole vectors get one each (strided.cu).
namespace ttap::cuda {
namespace {

constexpr uint64_t kSmallBytes = uint64_t{4} << 20;
constexpr uint64_t kVectorsBytes = uint64_t{1} << 20;  // of vectors with strides: from here on as large ones
constexpr uint64_t kMostRounds = 16;
constexpr int kSmallBlocksPerMultiprocessor = 2;
// Where the end of a launch counts: no more blocks than the last one adds up in one go.
constexpr uint64_t kMediumBytes = uint64_t{64} << 20;
constexpr uint64_t kMediumBlocks = 32 * kCellsAtOnce;
// Of a large tensor, for each warp: plain sums of short squares are good for some thousands of values.
constexpr uint64_t kHashBlocksPerWarp = 128;

__global__ void __launch_bounds__(kBlockThreads, kSmallBlocksPerMultiprocessor)
    fingerprint_small(const __grid_constant__ Batch batch, Scratch* scratch) {
  __shared__ Unconstructed<SlicesShared<ByteLane<8>>> shared;  // the largest, for every lane
  const uint32_t number = batch.job_of_block[blockIdx.x];
  const DeviceJob& job = batch.jobs[number];
  const PackedSource source{job.data};
  with_lane<ByteLane<8>>(job.dtype, [&]<class Lane>(Lane*) {
    static_assert(sizeof(SlicesShared<Lane>) <= sizeof shared);
    work_by_slices<Lane, false>(job, source, *scratch, reinterpret_cast<SlicesShared<Lane>&>(shared));
  });
}

constexpr uint64_t parts(uint64_t whole, uint64_t size) { return (whole + size - 1) / size; }

DeviceJob device_job(const FingerprintJob& job) {
  const TensorView& view = job.view;
  DeviceJob made;
  made.data = static_cast<const std::byte*>(view.data);
  made.bytes = byte_count(view);
  const auto row_count = view.ndim() == 0 ? uint64_t{1} : static_cast<uint64_t>(view.shape[0]);
  made.row_bytes = row_count == 0 ? 0 : made.bytes / row_count;
  made.rows = job.rows.count;
  made.rows_are_64_bit = job.rows.is_64_bit;
  made.copy_to = static_cast<std::byte*>(job.copy_to);
  made.result = job.result;
  made.is_watched = job.is_watched;
  made.is_sketched = job.is_sketched;
  made.sequence = job.sequence;
  made.dtype = view.dtype;
  return made;
}

bool is_packed(const TensorView& view) {
  return is_contiguous(view) && reinterpret_cast<uintptr_t>(view.data) % kVectorBytes == 0;
}

// Of one tensor by itself.
uint16_t blocks_for_large(uint64_t bytes, uint64_t resident) {
  if (bytes <= kMediumBytes) resident = std::min(resident, kMediumBlocks);
  const uint64_t hash_blocks = bytes / kHashBlockBytes;
  const uint64_t wanted = parts(hash_blocks, 2 * kWarps);
  if (wanted <= resident) return static_cast<uint16_t>(std::max<uint64_t>(wanted, 1));
  // Every block the same share: whole waves of them.
  const uint64_t waves = parts(hash_blocks, resident * kWarps * kHashBlocksPerWarp);
  return static_cast<uint16_t>(std::min<uint64_t>({waves * resident, wanted, kMostBlocks}));
}

// Large tensors of one dtype, on their way to a launch; with layouts, or all in C order.
struct LargeJobs {
  StridedBatch strided;
  uint32_t count = 0;
  bool has_layouts = false;

  DType dtype() const { return strided.batch.jobs[0].dtype; }

  // As many blocks as run at once, each job the share that is its due. Gives their number.
  uint32_t share_out(uint64_t multiprocessors) {
    LargeBatch& batch = strided.batch;
    const uint64_t resident = multiprocessors * (has_layouts ? static_cast<uint64_t>(kStridedBlocksPerMultiprocessor)
                                                             : blocks_per_multiprocessor(dtype()));
    uint64_t all_bytes = 0;
    for (uint32_t i = 0; i < count; ++i) all_bytes += batch.jobs[i].bytes;
    std::fill_n(batch.first_block, kLargePerLaunch, kNoBlock);
    uint32_t blocks = 0;
    for (uint32_t i = 0; i < count; ++i) {
      DeviceJob& job = batch.jobs[i];
      const uint64_t bytes = job.bytes;
      const uint64_t share =
          std::max<uint64_t>(static_cast<uint64_t>(static_cast<double>(resident) * static_cast<double>(bytes) /
                                                   static_cast<double>(all_bytes)),
                             1);
      // No more than there is room for, with one for each that comes after.
      const uint32_t left = kMostBlocks - blocks - (count - 1 - i);
      job.blocks = static_cast<uint16_t>(std::min<uint32_t>(blocks_for_large(bytes, share), left));
      job.first_block = batch.first_block[i] = static_cast<uint16_t>(blocks);
      blocks += job.blocks;
    }
    return blocks;
  }
};

class Launcher {
 public:
  Launcher(Scratch* scratch, Stream stream, uint64_t multiprocessors)
      : scratch_(scratch), stream_(stream), multiprocessors_(multiprocessors) {}

  Status add(const FingerprintJob& asked) {
    DeviceJob job = device_job(asked);
    const uint64_t bytes = job.bytes;
    const uint64_t rounds = std::max<uint64_t>(parts(bytes, kSliceRoundBytes), 1);
    if (bytes != 0 && !is_packed(asked.view)) {
      const StridedLayout layout = strided_layout(asked.view);
      if (bytes >= kVectorsBytes)
        if (const auto vectors = vector_layout(layout)) return add_large(job, &*vectors);
      job.blocks = static_cast<uint16_t>(std::min<uint64_t>({rounds, multiprocessors_ * 8, kMostBlocks}));
      launch_strided(job, layout, scratch_, stream_);
      return launched("fingerprint of a strided tensor");
    }
    if (bytes > kSmallBytes) return add_large(job, nullptr);
    if (count_ == kJobsPerLaunch) TTAP_TRY(flush_small());
    batch_.jobs[count_++] = job;
    rounds_ += rounds;
    return {};
  }

  Status flush() {
    for (LargeJobs& jobs : large_) TTAP_TRY(flush_large(jobs));
    return flush_small();
  }

 private:
  Status add_large(const DeviceJob& job, const VectorLayout* layout) {
    auto jobs = std::find_if(large_.begin(), large_.end(), [&](const LargeJobs& each) {
      return each.has_layouts == (layout != nullptr) && each.dtype() == job.dtype;
    });
    if (jobs == large_.end()) {
      large_.emplace_back().has_layouts = layout != nullptr;
      jobs = large_.end() - 1;
    } else if (jobs->count == kLargePerLaunch) {
      TTAP_TRY(flush_large(*jobs));
    }
    if (layout != nullptr) jobs->strided.layouts[jobs->count] = *layout;
    jobs->strided.batch.jobs[jobs->count++] = job;
    return {};
  }

  Status flush_large(LargeJobs& jobs) {
    if (jobs.count == 0) return {};
    const uint32_t blocks = jobs.share_out(multiprocessors_);
    if (jobs.has_layouts)
      launch_vectors(jobs.strided, blocks, scratch_, stream_);
    else
      launch_large(jobs.strided.batch, blocks, scratch_, stream_);
    jobs.count = 0;
    return launched("fingerprints of large tensors");
  }

  Status flush_small() {
    if (count_ == 0) return {};
    // As many blocks as run at once.
    const uint64_t resident = multiprocessors_ * kSmallBlocksPerMultiprocessor;
    const uint64_t per_block = std::clamp<uint64_t>(parts(rounds_, resident), 1, kMostRounds);
    uint32_t blocks = 0;
    for (uint32_t i = 0; i < count_; ++i) {
      DeviceJob& job = batch_.jobs[i];
      job.first_block = static_cast<uint16_t>(blocks);
      job.blocks = static_cast<uint16_t>(std::max<uint64_t>(parts(job.bytes, kSliceRoundBytes * per_block), 1));
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

  Scratch* scratch_;
  Stream stream_;
  uint64_t multiprocessors_;
  std::vector<LargeJobs> large_;
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
