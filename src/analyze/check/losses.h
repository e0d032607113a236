#pragma once

#include <cstdint>
#include <string>

#include "ttap/api.h"
#include "ttap/run.h"

namespace ttap {

// Tensors that the program had and of which the recording has nothing, not even a fingerprint: a bound (quota, staging
// memory, a full disk) or a failed write kept them out. What cannot be recorded at all (`unsupported`) is no loss.
struct TTAP_API Losses {
  uint64_t passes = 0;  // without a file
  uint64_t tensors = 0;
  DropCounts causes = {};  // of these tensors, and of those that are there without their bytes

  bool any() const { return passes + tensors > 0; }
  Losses& operator+=(const Losses& other);
  // 3 passes and 1200 tensors were lost (quota); empty when nothing was.
  std::string text() const;
};
TTAP_API Losses losses_of(const Pass& pass);
// The passes of the rank that have no file.
TTAP_API Losses lost_passes_of(const Rank& rank);

}  // namespace ttap
