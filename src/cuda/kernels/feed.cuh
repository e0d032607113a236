#pragma once

#include <type_traits>

#include "cuda/kernels/device_job.h"
#include "cuda/kernels/lane_hash.h"

// How the vectors of a large tensor reach the lanes of a warp. A warp works on two hash blocks that lie side by side,
// so that a key that was read serves both, a quarter of each at a time: a step. Two steps are on their way while one is
// worked on.
namespace ttap::cuda {

inline constexpr uint32_t kPairBytes = 2 * kHashBlockBytes;
inline constexpr uint32_t kStepVectors = 4;                                   // for each lane: two of each hash block
inline constexpr uint32_t kStepBytes = kStepVectors / 2 * 32 * kVectorBytes;  // of each hash block
inline constexpr uint32_t kSteps = kHashBlockBytes / kStepBytes;
inline constexpr uint32_t kSlots = 2;

// Where vector number `i` of a step lies, from the lane's first on.
__device__ constexpr uint32_t offset_in_step(uint32_t i) {
  return i / 2 * static_cast<uint32_t>(kHashBlockBytes) + i % 2 * 32 * kVectorBytes;
}

// Read there and then: left to the compiler, what two hash blocks share is read for each.
__device__ inline Vector load_shared(uint32_t address) {
  Vector vector;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(vector.word[0]), "=r"(vector.word[1]), "=r"(vector.word[2]), "=r"(vector.word[3])
               : "r"(address));
  return vector;
}

// Through shared memory, which leaves registers for the statistics. Each lane copies what it reads itself: it has to
// wait for nobody else.
class SharedFeed {
 public:
  static constexpr bool kFetchesEarly = true;  // what was taken from a slot does not need it any more
  struct Shared {
    Vector vectors[kSlots * kStepVectors][kBlockThreads];
  };
  __device__ explicit SharedFeed(Shared& shared)
      : own_(static_cast<uint32_t>(__cvta_generic_to_shared(&shared.vectors[0][threadIdx.x]))) {}

  // A step that is not there counts too.
  __device__ void fetch(uint32_t slot, const std::byte* from, bool there) {
    if (there) {
#pragma unroll
      for (uint32_t i = 0; i < kStepVectors; ++i)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place(slot, i)), "l"(from + offset_in_step(i))
                     : "memory");
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  }

  // In the order of fetch(), while all slots are under way.
  __device__ void take(uint32_t slot, Vector (&into)[kStepVectors]) const {
    asm volatile("cp.async.wait_group %0;" ::"n"(kSlots - 1) : "memory");
#pragma unroll
    for (uint32_t i = 0; i < kStepVectors; ++i) into[i] = load_shared(place(slot, i));
  }

 private:
  __device__ uint32_t place(uint32_t slot, uint32_t i) const {
    return own_ + (slot * kStepVectors + i) * kBlockThreads * kVectorBytes;
  }
  uint32_t own_;
};

// In registers: for lanes that have enough of them and keep shared memory busy themselves.
class RegisterFeed {
 public:
  static constexpr bool kFetchesEarly = false;
  struct Shared {};
  __device__ explicit RegisterFeed(Shared&) {}

  __device__ void fetch(uint32_t slot, const std::byte* from, bool there) {
    if (!there) return;
#pragma unroll
    for (uint32_t i = 0; i < kStepVectors; ++i) {
      const uint4 loaded = __ldg(reinterpret_cast<const uint4*>(from + offset_in_step(i)));
      ahead_[slot][i] = {{loaded.x, loaded.y, loaded.z, loaded.w}};
    }
  }
  __device__ void take(uint32_t slot, Vector (&into)[kStepVectors]) const {
#pragma unroll
    for (uint32_t i = 0; i < kStepVectors; ++i) into[i] = ahead_[slot][i];
  }

 private:
  Vector ahead_[kSlots][kStepVectors];
};

template <class Lane>
using FeedOf = std::conditional_t<std::is_empty_v<typename Lane::Shared>, SharedFeed, RegisterFeed>;

}  // namespace ttap::cuda
