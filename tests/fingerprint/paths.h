#pragma once

#include <vector>

#include "ttap/fingerprint.h"

namespace ttap {

// Every vector path this machine has, each under the name that asks for it.
inline std::vector<SimdPath> every_path() {
  std::vector<SimdPath> paths = {SimdPath::kBest, SimdPath::kScalar};
  if (simd_path_name(SimdPath::kAvx2) == "avx2") paths.push_back(SimdPath::kAvx2);
  if (simd_path_name(SimdPath::kAvx512) == "avx512") paths.push_back(SimdPath::kAvx512);
  return paths;
}

}  // namespace ttap
