#include "cuda/kernels/block_work.cuh"
#include "cuda/kernels/lane_of_dtype.cuh"
#include "cuda/kernels/single_launch.h"

namespace ttap::cuda {
namespace {

template <class Lane>
__global__ void __launch_bounds__(kBlockThreads, kLargeBlocksPerMultiprocessor)
    fingerprint_large(const __grid_constant__ DeviceJob job, Scratch* scratch) {
  __shared__ Unconstructed<BlockShared<Lane>> shared;
  work_by_warps<Lane>(job, PackedSource{job.data}, *scratch, shared.get());
}

}  // namespace

void launch_large(const DeviceJob& job, Scratch* scratch, Stream stream) {
  with_lane<ByteLane<32>>(job.dtype, [&]<class Lane>(Lane*) {
    fingerprint_large<Lane><<<job.blocks, kBlockThreads, 0, stream>>>(job, scratch);
  });
}

}  // namespace ttap::cuda
