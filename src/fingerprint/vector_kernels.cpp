// Included once per vector target by foreach_target.h; see Highway's documentation.
#include <algorithm>
#include <type_traits>

#include "core/cpu_features.h"
#include "fingerprint/byte_histogram.h"
#include "fingerprint/byte_sums.h"
#include "fingerprint/kernels.h"
#include "fingerprint/real_format.h"
#include "fingerprint/sketch.h"

// Of the x86 targets those that the API names; of the others the fixed-size ones.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fingerprint/vector_kernels.cpp"
#include <hwy/foreach_target.h>  // before highway.h

#include <hwy/highway.h>

#include "fingerprint/vector_kernels_inl.h"
// Use what that defines.
#include "fingerprint/sketch_kernels_inl.h"
// Last: the table of kernels is at its end.
#include "fingerprint/byte_kernels_inl.h"

#if HWY_ONCE

namespace ttap {

#if HWY_ARCH_X86

const Kernels* vector_kernels(SimdPath limit) {
#if HWY_TARGETS & HWY_AVX3
  if (limit != SimdPath::kAvx2 && cpu_features().avx512)
    return cpu_features().avx512_bytes ? &N_AVX3::kByteTableKernels : &N_AVX3::kKernels;
#endif
#if HWY_TARGETS & HWY_AVX2
  if (cpu_features().avx2) return &N_AVX2::kKernels;
#endif
  return nullptr;
}

#elif HWY_STATIC_TARGET == HWY_NEON

const Kernels* vector_kernels(SimdPath limit) { return limit == SimdPath::kBest ? &N_NEON::kKernels : nullptr; }

#else

const Kernels* vector_kernels(SimdPath) { return nullptr; }

#endif

}  // namespace ttap

#endif  // HWY_ONCE
