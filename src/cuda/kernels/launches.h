#pragma once

#include "cuda/kernels/device_job.h"

namespace ttap::cuda {

// One small tensor in C order, on a multiple of 16.
void launch_small(const DeviceJob& job, Scratch* scratch, Stream stream);
// One tensor with any strides.
void launch_strided(const DeviceJob& job, const StridedLayout& layout, Scratch* scratch, Stream stream);

// Some large tensors of one dtype, each in C order on a multiple of 16; `blocks` is what theirs add up to.
uint64_t blocks_per_multiprocessor(DType dtype);
void launch_large(const LargeBatch& batch, uint32_t blocks, Scratch* scratch, Stream stream);
// The same with layouts.
inline constexpr int kStridedBlocksPerMultiprocessor = 2;
void launch_vectors(const StridedBatch& strided, uint32_t blocks, Scratch* scratch, Stream stream);

}  // namespace ttap::cuda
