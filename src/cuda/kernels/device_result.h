#pragma once

#include <atomic>
#include <cstdint>

#include "core/float_mode.h"
#include "cuda/kernels/totals.h"
#include "fingerprint/hash128.h"
#include "ttap/fingerprint.h"

namespace ttap::cuda {

// What a kernel leaves of one tensor. `sequence` is stored last, after everything else is visible to whoever reads it:
// the host for one in pinned memory.
struct alignas(16) DeviceResult {
  Totals totals = {};
  double centre = 0;   // of the totals' sums
  uint64_t bytes = 0;  // that were read: fewer than the tensor has when its rows are limited
  uint64_t sequence = 0;
  uint64_t has_sketch = 0;
  double sketch[kSketchBuckets];  // if it has one
};
static_assert(sizeof(DeviceResult) == 160 + sizeof(Sketch));

// `bytes` of a result that will never come: its launch failed.
inline constexpr uint64_t kLostBytes = UINT64_MAX;

inline bool has_arrived(const DeviceResult& result, uint64_t sequence) {
  return std::atomic_ref(const_cast<uint64_t&>(result.sequence)).load(std::memory_order_acquire) == sequence;
}
// Of a tap in a graph: whether its kernel has ever run. Its memory is zero before.
inline bool is_there(const DeviceResult& result) { return result.sequence != 0; }
inline Fingerprint to_fingerprint(const DeviceResult& result) {
  const DefaultFloatMode mode;
  const HashPair hash = hash_mix({result.totals.digest_a, result.totals.digest_b}, result.bytes);
  const bool has_sketch = result.has_sketch != 0;
  return {{hash.a, hash.b},
          to_stats(to_part(result.totals, result.centre)),
          has_sketch ? std::to_array(result.sketch) : Sketch{},
          has_sketch};
}

}  // namespace ttap::cuda
