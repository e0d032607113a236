// Compiled, never run: what host and device share is accepted as device code, every function of it used in a kernel.
#include <cstdint>

#include "core/element.h"
#include "core/element_difference.h"
#include "core/mix64.h"
#include "cuda/kernels/quant/quant_threads.h"
#include "ttap/compare.h"

namespace ttap {

__global__ void shared_functions(const unsigned char* bytes, const uint16_t* halves, double* values, uint64_t* mixed,
                                 bool* close, Tolerance tolerance) {
  const unsigned i = threadIdx.x;
  values[0] = f32_of_bf16(halves[i]);
  values[1] = f32_of_f16(halves[i]);
  values[2] = f32_of_e4m3fn(bytes[i]);
  values[3] = f32_of_e5m2(bytes[i]);
  values[4] = f32_of_e4m3fnuz(bytes[i]);
  values[5] = f32_of_e5m2fnuz(bytes[i]);
  values[6] = f32_of_e8m0fnu(bytes[i]);
  values[7] = f32_of_e2m1fn(bytes[i]);
  for (int number = 1; number <= 21; ++number) {
    const auto dtype = static_cast<DType>(number);
    values[8 + number] = value_of(dtype, bytes, widens_to_f32(dtype) ? 0 : 1);
  }
  mixed[i] = mix64(mixed[i]);
  close[0] = is_close(values[0], values[1], tolerance);
  close[1] = is_close(static_cast<int64_t>(i), int64_t{1});
  close[2] = is_close(mixed[0], mixed[1]);
}

__global__ void decoding(const __grid_constant__ cuda::QuantJob job, cuda::QuantTile<double>* tile, uint16_t* halves) {
  const cuda::ThreadPlace at{threadIdx.x, blockIdx.x, gridDim.x};
  cuda::decode_units<QuantElement::kE2M1, true, cuda::UnitScales::kAny>(job, at);
  cuda::decode_units_of_columns<QuantElement::kE5M2>(job, at);
  cuda::decode_values<float>(job, at);
  cuda::fill_tile(job, 0, at.thread, *tile);
  cuda::empty_tile(job, 0, at.thread, *tile);
  halves[0] = bf16_of(1.5F);
  halves[1] = f16_of(1.5F);
}

}  // namespace ttap
