#include <atomic>

#include "cuda/kernels/lane_of_dtype.cuh"
#include "cuda/kernels/launches.h"
#include "cuda/kernels/work_by_pairs.cuh"

// Large tensors of one dtype, several to a launch. Those of which whole vectors lie together (VectorLayout) are read
// into registers by their lanes.
namespace ttap::cuda {
namespace {

__device__ inline uint32_t job_of_block(const LargeBatch& batch) {
  uint32_t number = 0;
#pragma unroll
  for (uint32_t i = 1; i < kLargePerLaunch; ++i) number += blockIdx.x >= batch.first_block[i] ? 1 : 0;
  return number;
}

template <class Lane>
using FeedOf = std::conditional_t<Lane::kLargePlan.feed == FeedKind::kBulk, BulkFeed, RegisterFeed>;

template <class Lane>
__global__ void __launch_bounds__(kBlockThreads, Lane::kLargePlan.blocks_per_multiprocessor)
    fingerprint_large(const __grid_constant__ LargeBatch batch, Scratch* scratch) {
#if __CUDA_ARCH__ >= 900
  using Feed = FeedOf<Lane>;
#else
  using Feed = RegisterFeed;
#endif
  extern __shared__ __align__(128) unsigned char shared[];
  const uint32_t number = job_of_block(batch);
  const DeviceJob& job = batch.jobs[number];
  work_by_pairs(job, PackedSource{job.data}, *scratch, *reinterpret_cast<PairsShared<Lane, Feed>*>(shared));
}

template <class Lane>
__global__ void __launch_bounds__(kBlockThreads, kStridedBlocksPerMultiprocessor)
    fingerprint_vectors(const __grid_constant__ StridedBatch strided, Scratch* scratch) {
  __shared__ Unconstructed<PairsShared<Lane, RegisterFeed>> shared;
  const uint32_t number = job_of_block(strided.batch);
  const DeviceJob& job = strided.batch.jobs[number];
  work_by_pairs(job, VectorSource{job.data, strided.layouts[number]}, *scratch, shared.get());
}

constexpr size_t kUsualSharedBytes = 48 << 10;  // more has to be asked for
constexpr int kDevicesKnown = 64;

// How much shared memory a block has on a device, which is asked for it once; again where there are very many devices.
// What fails here is an error of the launch.
template <class Lane>
size_t shared_bytes(int device) {
  static std::atomic<size_t> known[kDevicesKnown];
  if (device < kDevicesKnown)
    if (const size_t bytes = known[device].load(std::memory_order_relaxed); bytes != 0) return bytes;
  int capability = 0;
  cudaDeviceGetAttribute(&capability, cudaDevAttrComputeCapabilityMajor, device);
  const size_t bytes =
      capability >= 9 ? sizeof(PairsShared<Lane, FeedOf<Lane>>) : sizeof(PairsShared<Lane, RegisterFeed>);
  if (bytes > kUsualSharedBytes)
    cudaFuncSetAttribute(fingerprint_large<Lane>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  if (device < kDevicesKnown) known[device].store(bytes, std::memory_order_relaxed);
  return bytes;
}

}  // namespace

uint64_t blocks_per_multiprocessor(DType dtype) {
  return with_lane<ByteLane<32>>(
      dtype, []<class Lane>(Lane*) -> uint64_t { return Lane::kLargePlan.blocks_per_multiprocessor; });
}

void launch_large(const LargeBatch& batch, uint32_t blocks, Scratch* scratch, Stream stream) {
  int device = 0;
  cudaGetDevice(&device);
  with_lane<ByteLane<32>>(batch.jobs[0].dtype, [&]<class Lane>(Lane*) {
    fingerprint_large<Lane><<<blocks, kBlockThreads, shared_bytes<Lane>(device), stream>>>(batch, scratch);
  });
}

void launch_vectors(const StridedBatch& strided, uint32_t blocks, Scratch* scratch, Stream stream) {
  with_lane<ByteLane<8>>(strided.batch.jobs[0].dtype, [&]<class Lane>(Lane*) {
    fingerprint_vectors<Lane><<<blocks, kBlockThreads, 0, stream>>>(strided, scratch);
  });
}

}  // namespace ttap::cuda
