#include "cuda/kernels/block_work.cuh"
#include "cuda/kernels/lane_of_dtype.cuh"
#include "cuda/kernels/launches.h"

namespace ttap::cuda {
namespace {

// One small tensor by itself: sooner done than a batch of one, which has more parameters and code for every dtype.
template <class Lane>
__global__ void __launch_bounds__(kBlockThreads, 2)
    fingerprint_one(const __grid_constant__ DeviceJob job, Scratch* scratch) {
  __shared__ Unconstructed<BlockShared<Lane>> shared;
  work_by_slices<Lane>(job, 0, PackedSource{job.data}, *scratch, shared.get());
}

}  // namespace

void launch_small(const DeviceJob& job, Scratch* scratch, Stream stream) {
  with_lane<ByteLane<8>>(job.dtype, [&]<class Lane>(Lane*) {
    fingerprint_one<Lane><<<job.blocks, kBlockThreads, 0, stream>>>(job, scratch);
  });
}

}  // namespace ttap::cuda
