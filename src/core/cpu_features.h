#pragma once

namespace ttap {

// Which of the vector kernels of this build the processor can run, its system included.
struct CpuFeatures {
  bool avx2 = false;          // AVX2, FMA, BMI2
  bool avx512 = false;        // AVX-512 F, CD, VL, DQ, BW
  bool avx512_bytes = false;  // and VBMI, VNNI
};
const CpuFeatures& cpu_features();

}  // namespace ttap
