#pragma once

#include <cstdint>
#include <vector>

#include "analyze/check/nonfinite.h"
#include "ttap/run.h"

namespace ttap {

struct VerifyReport {
  uint64_t tensors = 0;                // whose bytes match their hash
  uint64_t bytes = 0;                  // of those
  uint64_t without_bytes = 0;          // nothing to check
  uint64_t without_hash = 0;           // bytes of a foreign format, which keeps no hash
  std::vector<Unjudged> damaged = {};  // or not to be found any more, in execution order
};

// Reads every byte that was kept, also in another pass for a tensor that did not change, and checks it against its
// hash.
VerifyReport verify_bytes(const Pass& pass, const ScanOptions& options = {});

}  // namespace ttap
