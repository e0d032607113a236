#include "cuda/kernels/lane_of_dtype.cuh"
#include "cuda/kernels/single_launch.h"
#include "cuda/kernels/work_by_pairs.cuh"

namespace ttap::cuda {
namespace {

template <class Lane>
__global__ void __launch_bounds__(kBlockThreads, Lane::kBlocksPerMultiprocessor)
    fingerprint_large(const __grid_constant__ DeviceJob job, Scratch* scratch) {
  __shared__ Unconstructed<PairsShared<Lane>> shared;
  work_by_pairs<Lane>(job, *scratch, shared.get());
}

}  // namespace

uint64_t blocks_per_multiprocessor(DType dtype) {
  return with_lane<ByteLane<32>>(dtype, []<class Lane>(Lane*) -> uint64_t { return Lane::kBlocksPerMultiprocessor; });
}

void launch_large(const DeviceJob& job, Scratch* scratch, Stream stream) {
  with_lane<ByteLane<32>>(job.dtype, [&]<class Lane>(Lane*) {
    fingerprint_large<Lane><<<job.blocks, kBlockThreads, 0, stream>>>(job, scratch);
  });
}

}  // namespace ttap::cuda
