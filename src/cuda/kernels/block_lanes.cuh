#pragma once

#include <type_traits>

#include "cuda/kernels/device_job.h"
#include "cuda/kernels/lanes/byte_values.h"
#include "cuda/kernels/lanes/lane_stats.h"
#include "cuda/kernels/warp_sketch.cuh"

// What a block's threads do with the vectors they get, for each family of formats.
namespace ttap::cuda {

// How large tensors are read (feed.cuh), where the device can do it, and by how many blocks at once.
enum class FeedKind : uint8_t { kRegisters, kBulk };
struct LargePlan {
  FeedKind feed;
  int blocks_per_multiprocessor;
};
// More blocks leave fewer registers to each; counting bytes keeps shared memory busy as it is.
inline constexpr LargePlan kPlanOf16Bits{FeedKind::kBulk, 3};
inline constexpr LargePlan kPlanOf32Bits{FeedKind::kBulk, 2};
inline constexpr LargePlan kPlanOf64Bits{FeedKind::kBulk, 2};
inline constexpr LargePlan kPlanOfBytes{FeedKind::kRegisters, 3};

template <class F, bool FEW>
using StatsOfLane = std::conditional_t<F::kBits == 16, PackedStats<F>, WideStats<F, FEW>>;

// FEW: takes vectors once.
template <class F, bool FEW = false>
struct ValueLane {
  using OfFew = ValueLane<F, true>;
  // Sums of 16-bit values are good enough about zero.
  static constexpr bool kHasCentre = F::kBits > 16;
  static constexpr bool kIsFloat = F::kKind == LaneKind::kFloat;
  using Sketch = std::conditional_t<kIsFloat, WarpSketch<F>, NoSketch>;
  // Sums that threads leave: whether they have rests, or are exact or nearly so without; whether they may come near to
  // what a double can hold.
  static constexpr bool kHasRests = kHasCentre;
  static constexpr bool kSumsMayBeHuge = F::kMayBeHuge;
  static constexpr LargePlan kLargePlan = F::kBits == 16   ? kPlanOf16Bits
                                          : F::kBits == 32 ? kPlanOf32Bits
                                                           : kPlanOf64Bits;
  // Gathering waits for memory, so it wants as many threads as their registers leave room for.
  static constexpr int kGatherBlocksPerMultiprocessor = kIsFloat && F::kBits == 64 ? 2 : 3;
  struct Shared {};
  StatsOfLane<F, FEW> stats;
  Sketch sketch;

  // The centre is needed where FEW.
  __device__ ValueLane(Shared&, DType, double centre) {
    if constexpr (FEW && kHasCentre) stats.centre = centre;
  }

  // The first value of a tensor, which becomes its centre if it can: false if not.
  __device__ static bool get_centre(const std::byte* data, double& centre) {
    if (reinterpret_cast<uintptr_t>(data) % (F::kBits / 8) != 0) return false;
    uint64_t bits = 0;
    if constexpr (F::kBits == 32)
      bits = __ldg(reinterpret_cast<const unsigned*>(data));
    else if constexpr (F::kBits == 64)
      bits = __ldg(reinterpret_cast<const unsigned long long*>(data));
    return set_centre(bits, centre);
  }
  // The same of the values in the first `valid` bytes of a vector.
  __device__ static bool get_centre(const Vector& vector, uint32_t valid, double& centre) {
    constexpr uint32_t kWords = F::kBits / 32;
#pragma unroll
    for (uint32_t i = 0; i < 4; i += kWords) {
      const uint64_t bits = vector.word[i] | (kWords == 2 ? static_cast<uint64_t>(vector.word[i + 1]) << 32 : 0);
      if (4 * (i + kWords) <= valid && set_centre(bits, centre)) return true;
    }
    return false;
  }

  // The vectors are used up. `sketched`: they are added to the sketch too, signs and lines as it has them.
  template <class Signs, int N>
  __device__ void add(Vector (&vectors)[N], bool sketched, const Signs& signs, const uint32_t (&lines)[N]) {
    if constexpr (F::kBits == 16) {
      stats.add(vectors);
      if constexpr (kIsFloat)
        if (sketched) {
          if (stats.some_beyond_sketch()) [[unlikely]]
            sketch.template add<true>(vectors, signs, lines);
          else
            sketch.template add<false>(vectors, signs, lines);
        }
    } else {
      if constexpr (kIsFloat)
        if (sketched) return add_both(vectors, signs, lines);
      stats.add(vectors, [](int, double) {});
    }
  }

  __device__ LaneSums finish(double centre) const { return stats.finish(centre); }

  // Of the first `valid` bytes of a vector.
  __device__ static LaneSums sums_of_odd(const Vector& vector, uint32_t valid, DType, double centre) {
    constexpr uint32_t kSize = F::kBits / 8;
    ScalarStats odd;
    // Shifted down value by value: an index that is not known when compiling would put the vector into local memory.
    uint64_t low = vector.word[0] | static_cast<uint64_t>(vector.word[1]) << 32;
    uint64_t high = vector.word[2] | static_cast<uint64_t>(vector.word[3]) << 32;
#pragma unroll 1
    for (uint32_t at = 0; at + kSize <= valid; at += kSize) {
      if constexpr (kSize == 8) {
        odd.add<F>(low);
        low = high;
      } else {
        odd.add<F>(low & ((uint64_t{1} << F::kBits) - 1));
        low = low >> F::kBits | high << (64 - F::kBits);
        high >>= F::kBits;
      }
    }
    return odd.finish<F>(centre);
  }

 private:
  // A value that is made wider for the statistics serves the sketch.
  template <class Signs, int N>
  __device__ void add_both(Vector (&vectors)[N], const Signs& signs, const uint32_t (&lines)[N]) {
    constexpr int kValues = static_cast<int>(Sketch::kValues);
    LaneSketch<F> found;
    stats.add(vectors, [&](int i, double value) {
      const uint32_t line = lines[i / kValues];
      found.add(value, static_cast<uint32_t>(i % kValues), line, LaneSketch<F>::sign_of_line(signs, line));
    });
    if (stats.some_beyond_sketch()) [[unlikely]]
      sketch.template add<true>(vectors, signs, lines);
    else
      sketch.unit.add(found);
  }

  __device__ static bool set_centre(uint64_t bits, double& centre) {
    if constexpr (kIsFloat)
      if ((bits & (F::kSign - 1)) >= F::kInfinite) return false;
    centre = F::kMayBeHuge ? never_huge(F::value(bits)) : F::value(bits);
    return true;
  }
};

// Read, not made, as the keys of the hash are.
static __device__ const ByteValues kByteValues = make_byte_values();

// Formats of one byte: how often each byte occurs. Each copy of the counters has banks of its own, so that the lanes of
// a warp do not wait for each other; with 32 copies never.
template <uint32_t COPIES>
struct ByteLane {
  using OfFew = ByteLane;
  using Sketch = NoSketch;
  NoSketch sketch;
  static constexpr bool kHasCentre = false;
  static constexpr bool kHasRests = false;
  static constexpr bool kSumsMayBeHuge = false;
  static constexpr LargePlan kLargePlan = kPlanOfBytes;
  static constexpr int kGatherBlocksPerMultiprocessor = 3;
  struct Shared {
    alignas(16) uint32_t counts[256 * COPIES];
  };
  Shared& shared;
  uint32_t format;
  float value, smallest_normal;  // of the code that is this thread's; on their way from the start
  uint32_t own;                  // the address of this lane's counter of zero bytes

  // Counters are ready after the next __syncthreads().
  __device__ ByteLane(Shared& counters, DType dtype, double)
      : shared(counters),
        format(static_cast<uint32_t>(dtype)),
        value(value_of_code(format, threadIdx.x)),
        smallest_normal(__ldg(&kByteValues.smallest_normal[format])),
        own(static_cast<uint32_t>(__cvta_generic_to_shared(counters.counts + threadIdx.x % COPIES))) {
    auto* const four = reinterpret_cast<uint4*>(shared.counts);
#pragma unroll
    for (uint32_t i = 0; i < 64 * COPIES; i += kBlockThreads) four[i + threadIdx.x] = {0, 0, 0, 0};
  }

  template <int N>
  __device__ void add(const Vector (&vectors)[N], bool, const NoSketch::Lines&, const uint32_t (&)[N]) {
#pragma unroll
    for (int v = 0; v < N; ++v)
#pragma unroll
      for (int i = 0; i < 16; ++i) count(byte_of(vectors[v], i));
  }

  // Each thread answers for one code.
  __device__ LaneSums finish(double) const {
    const uint32_t code = threadIdx.x;
    __syncthreads();
    uint32_t count = 0;
#pragma unroll
    for (uint32_t i = 0; i < COPIES; ++i) count += shared.counts[code * COPIES + (i + code) % COPIES];
    LaneSums sums = sums_of_value(value, count, smallest_normal);
    if (format == kTwoInAByte) [[unlikely]]
      ttap::cuda::add(sums, sums_of_value(value_of_code(format, code >> 4), count, smallest_normal));
    return sums;
  }

  __device__ static LaneSums sums_of_odd(const Vector& vector, uint32_t valid, DType dtype, double) {
    const auto format = static_cast<uint32_t>(dtype);
    const float smallest_normal = __ldg(&kByteValues.smallest_normal[format]);
    const uint32_t values = format == kTwoInAByte ? 2 : 1;
    LaneSums sums;
#pragma unroll 1
    for (uint32_t i = 0; i < valid * values; ++i) {
      const uint32_t at = i / values;
      const uint64_t half = at < 8 ? vector.word[0] | static_cast<uint64_t>(vector.word[1]) << 32
                                   : vector.word[2] | static_cast<uint64_t>(vector.word[3]) << 32;
      const uint32_t code = static_cast<uint32_t>(half >> (8 * (at % 8))) & 0xFF;
      const float value = value_of_code(format, i % values == 0 ? code : code >> 4);
      ttap::cuda::add(sums, sums_of_value(value, 1, smallest_normal));
    }
    return sums;
  }

 private:
  static constexpr auto kTwoInAByte = static_cast<uint32_t>(DType::kF4E2M1FNx2);

  // In one instruction, which the compiler would not choose by itself.
  __device__ static uint32_t byte_of(const Vector& vector, uint32_t i) {
    return __byte_perm(vector.word[i / 4], 0, 0x4440 + i % 4);
  }
  // By an address in shared memory that is worked out from the byte in one more.
  __device__ void count(uint32_t byte) {
    asm volatile("red.shared.add.u32 [%0], 1;" ::"r"(byte * (COPIES * 4) + own) : "memory");
  }

  __device__ static float value_of_code(uint32_t format, uint32_t code) { return __ldg(&kByteValues.of[format][code]); }

  // Exact: a value has eight bits at most, its count 32.
  __device__ static LaneSums sums_of_value(float value, uint32_t count, float smallest_normal) {
    LaneSums sums;
    if (count == 0) return sums;
    const float magnitude = fabsf(value);
    if (isnan(value)) {
      sums.nan = count;
    } else if (isinf(value)) {
      (value > 0 ? sums.pos_inf : sums.neg_inf) = count;
    } else {
      const double wide = value;
      const double n = static_cast<double>(count);
      sums.finite = count;
      sums.min = sums.max = wide;
      if (magnitude == 0)
        sums.zeros = count;
      else
        sums.min_abs_nonzero = fabs(wide);
      if (magnitude != 0 && magnitude < smallest_normal) sums.subnormals = count;
      sums.l1 = fabs(wide) * n;
      sums.sum.high = wide * n;
      sums.squares.high = wide * wide * n;
    }
    return sums;
  }
};

}  // namespace ttap::cuda
