#pragma once

#include "cuda/kernels/device_job.h"

namespace ttap::cuda {

// One tensor, one launch; job.blocks blocks. C order on a multiple of 16, or `layout`.
void launch_small(const DeviceJob& job, Scratch* scratch, Stream stream);
uint64_t blocks_per_multiprocessor(DType dtype);  // of launch_large()
void launch_large(const DeviceJob& job, Scratch* scratch, Stream stream);
void launch_strided(const DeviceJob& job, const StridedLayout& layout, Scratch* scratch, Stream stream);

}  // namespace ttap::cuda
