#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>

#include "ttap/api.h"
#include "ttap/result.h"
#include "ttap/tensor_view.h"

namespace ttap {

// 128 bits over the logical bytes in C order (docs/fingerprint.md): strides, CPU and thread count do not matter,
// order, sign and length do. Not a defence against an adversary.
struct Hash128 {
  uint64_t low = 0;
  uint64_t high = 0;
  bool operator==(const Hash128&) const = default;
};

// 32 hexadecimal digits, high half first.
TTAP_API std::string to_string(const Hash128& hash);

// Over the real values of a tensor: a complex element has two, a packed f4 element has two. What can be infinite or
// NaN is counted; everything from `min` down is over the finite values only, in double, and NaN when there is none
// (l1 and l2 are then 0; min_abs_nonzero is NaN when every finite value is zero). Integers of 64 bits are rounded to
// double.
struct Stats {
  uint64_t count = 0;
  uint64_t nan = 0;
  uint64_t pos_inf = 0;
  uint64_t neg_inf = 0;
  uint64_t zeros = 0;
  uint64_t subnormals = 0;  // of the tensor's own format
  double min = std::numeric_limits<double>::quiet_NaN();
  double max = std::numeric_limits<double>::quiet_NaN();
  double max_abs = std::numeric_limits<double>::quiet_NaN();
  double min_abs_nonzero = std::numeric_limits<double>::quiet_NaN();
  double mean = std::numeric_limits<double>::quiet_NaN();
  double std = std::numeric_limits<double>::quiet_NaN();  // population: divided by the count, as NumPy does
  double l1 = 0;
  double l2 = 0;

  uint64_t finite() const { return count - nan - pos_inf - neg_inf; }
};

// A count sketch of the values: each is added, with a sign, to one of the buckets; both are chosen by its place alone
// (docs/fingerprint.md). Of two tensors of one dtype and size it gives how far they are apart, whatever moved where.
inline constexpr uint32_t kSketchBuckets = 32;
using Sketch = std::array<double, kSketchBuckets>;

struct Fingerprint {
  Hash128 hash;
  Stats stats;
  Sketch sketch = {};
  bool has_sketch = false;  // floats of 16 bits or more, and complex numbers, may have one
};

// An estimate of the root of the sum of squared differences, over values that are finite and below 2^64.
TTAP_API double sketched_distance(const Sketch& a, const Sketch& b);
// How far the estimate may be off: the standard deviation of estimate / distance, from how the difference is spread
// over the buckets. 0.125 where it is spread over all, up to 0.7 where one bucket has it all.
TTAP_API double sketch_spread(const Sketch& a, const Sketch& b);

// The vector paths compiled in; kBest is what this CPU runs fastest. Asking for one that the CPU lacks gives the next
// lower one. All give the same hash; the statistics may differ in the last bits of a sum.
enum class SimdPath : uint8_t { kBest, kScalar, kAvx2, kAvx512 };

struct FingerprintOptions {
  unsigned threads = 1;  // for large tensors; 0 means one per core
  SimdPath path = SimdPath::kBest;
  bool sketch = true;
  bool statistics = true;  // without them there is no sketch either: only the hash is made
};

// The view must pass validate().
TTAP_API Fingerprint fingerprint(const TensorView& view, const FingerprintOptions& options = {});

// The path that `wanted` gives on this CPU, by name ("scalar", "avx2", "avx512", "neon").
TTAP_API std::string_view simd_path_name(SimdPath wanted = SimdPath::kBest);

}  // namespace ttap

// For maps and sets.
template <>
struct std::hash<ttap::Hash128> {
  size_t operator()(const ttap::Hash128& bits) const { return bits.low; }
};
