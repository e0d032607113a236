#include "core/cpu_features.h"

namespace ttap {
namespace {

CpuFeatures detect() {
  CpuFeatures found;
#if defined(__x86_64__)
  __builtin_cpu_init();
  // What Highway compiles its targets AVX2 and AVX3 with, as far as processors differ in it; then what byte_sums.cpp
  // adds.
  found.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
               __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul");
  found.avx512 = found.avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
                 __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                 __builtin_cpu_supports("avx512bw");
  found.avx512_bytes = found.avx512 && __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vnni");
#endif
  return found;
}

}  // namespace

const CpuFeatures& cpu_features() {
  static const CpuFeatures kFound = detect();
  return kFound;
}

}  // namespace ttap
