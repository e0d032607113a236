#include "cuda/kernels/lane_of_dtype.cuh"
#include "cuda/kernels/launches.h"
#include "cuda/kernels/work_by_slices.cuh"

namespace ttap::cuda {
namespace {

template <class Lane>
__global__ void __launch_bounds__(kBlockThreads, Lane::kGatherBlocksPerMultiprocessor)
    fingerprint_strided(const __grid_constant__ DeviceJob job, const __grid_constant__ StridedLayout layout,
                        Scratch* scratch) {
  __shared__ Unconstructed<SlicesShared<Lane>> shared;
  work_by_slices<Lane, false>(job, StridedSource{job.data, layout}, *scratch, shared.get());
}

}  // namespace

void launch_strided(const DeviceJob& job, const StridedLayout& layout, Scratch* scratch, Stream stream) {
  with_lane<ByteLane<8>>(job.dtype, [&]<class Lane>(Lane*) {
    fingerprint_strided<Lane><<<job.blocks, kBlockThreads, 0, stream>>>(job, layout, scratch);
  });
}

}  // namespace ttap::cuda
