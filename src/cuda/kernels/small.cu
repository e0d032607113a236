#include "cuda/kernels/lane_of_dtype.cuh"
#include "cuda/kernels/launches.h"
#include "cuda/kernels/work_by_slices.cuh"

namespace ttap::cuda {
namespace {

// One small tensor by itself: sooner done than a batch of one, which has more parameters and code for every dtype.
template <class Lane, bool ONE_ROUND>
__global__ void __launch_bounds__(kBlockThreads, 2)
    fingerprint_one(const __grid_constant__ DeviceJob job, Scratch* scratch) {
  __shared__ Unconstructed<SlicesShared<Lane>> shared;
  work_by_slices<Lane, ONE_ROUND>(job, PackedSource{job.data}, *scratch, shared.get());
}

}  // namespace

void launch_small(const DeviceJob& job, Scratch* scratch, Stream stream) {
  with_lane<ByteLane<8>>(job.dtype, [&]<class Lane>(Lane*) {
    if (uint64_t{job.blocks} * kSliceRoundBytes >= job.bytes)
      fingerprint_one<typename Lane::OfFew, true><<<job.blocks, kBlockThreads, 0, stream>>>(job, scratch);
    else
      fingerprint_one<Lane, false><<<job.blocks, kBlockThreads, 0, stream>>>(job, scratch);
  });
}

}  // namespace ttap::cuda
