#include "cuda/kernels/quant/quant_decode.h"

#include "cuda/kernels/launch_status.h"
#include "cuda/kernels/quant/quant_threads.h"

// Quantized groups decoded on the device: units of a row where the layout has them, else value by value.
namespace ttap::cuda {
namespace {

__device__ ThreadPlace here() { return {.thread = threadIdx.x, .block = blockIdx.x, .blocks = gridDim.x}; }

template <QuantElement ELEMENT, bool PACKED, UnitScales SCALES>
__global__ void __launch_bounds__(kQuantThreads, 4) decode_by_units(const __grid_constant__ QuantJob job) {
  decode_units<ELEMENT, PACKED, SCALES>(job, here());
}

template <QuantElement ELEMENT>
__global__ void __launch_bounds__(kQuantThreads) decode_by_columns(const __grid_constant__ QuantJob job) {
  decode_units_of_columns<ELEMENT>(job, here());
}

template <class T>
__global__ void __launch_bounds__(kQuantThreads) decode_by_values(const __grid_constant__ QuantJob job) {
  decode_values<T>(job, here());
}

template <class T>
__global__ void __launch_bounds__(kQuantThreads) decode_by_tiles(const __grid_constant__ QuantJob job) {
  __shared__ QuantTile<T> tile;
  for (uint64_t i = blockIdx.x; i < tiles_of(job); i += gridDim.x) {
    fill_tile(job, i, threadIdx.x, tile);
    __syncthreads();
    empty_tile(job, i, threadIdx.x, tile);
    __syncthreads();
  }
}

}  // namespace

Status launch_quant_decode(const QuantJob& job, Stream stream) {
  if (job.values() == 0) return {};
  const bool wide = job.dtype == DType::kF64;
  if (job.scale_each) {
    const uint32_t blocks = quant_blocks(job.units, kQuantThreads);
    if (job.element == QuantElement::kE4M3)
      decode_by_columns<QuantElement::kE4M3><<<blocks, kQuantThreads, 0, stream>>>(job);
    else
      decode_by_columns<QuantElement::kE5M2><<<blocks, kQuantThreads, 0, stream>>>(job);
  } else if (job.units > 0) {
    with_kernel(job, [&]<QuantElement ELEMENT, bool PACKED, UnitScales SCALES>() {
      decode_by_units<ELEMENT, PACKED, SCALES><<<blocks_of_units(job), kQuantThreads, 0, stream>>>(job);
    });
  } else if (job.transposed) {
    const uint32_t blocks = blocks_of_tiles(job);
    if (wide)
      decode_by_tiles<double><<<blocks, kQuantThreads, 0, stream>>>(job);
    else
      decode_by_tiles<float><<<blocks, kQuantThreads, 0, stream>>>(job);
  } else {
    const uint32_t blocks = blocks_of_values(job);
    if (wide)
      decode_by_values<double><<<blocks, kQuantThreads, 0, stream>>>(job);
    else
      decode_by_values<float><<<blocks, kQuantThreads, 0, stream>>>(job);
  }
  return launched("decoding a quantized tensor");
}

}  // namespace ttap::cuda
