#pragma once

#include "cuda/kernels/block_lanes.cuh"
#include "cuda/kernels/columns.cuh"
#include "cuda/kernels/lanes/lane_hash.h"
#include "cuda/kernels/source.cuh"

// How the vectors of a large tensor reach the lanes of a warp. A warp works on two hash blocks that lie side by side, a
// pair, so that a key that was read serves both: a quarter of each at a time, a step. Two steps are a round.
namespace ttap::cuda {

inline constexpr uint32_t kPairBytes = 2 * kHashBlockBytes;
inline constexpr uint32_t kRounds = 2;                                        // of a pair
inline constexpr uint32_t kSteps = 2;                                         // of a round
inline constexpr uint32_t kStepVectors = 4;                                   // for each lane: two of each hash block
inline constexpr uint32_t kStepBytes = kStepVectors / 2 * 32 * kVectorBytes;  // of each hash block
inline constexpr uint32_t kRoundBytes = kSteps * kStepBytes;                  // of each hash block
static_assert(kRounds * kRoundBytes == kHashBlockBytes);

// Where vector number `i` of a step lies in its pair, from the step's first on.
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

// In registers: while a round is worked on, the next is under way.
class RegisterFeed {
 public:
  static constexpr bool kFetchesEarly = false;  // a step's registers take the next one
  struct Shared {};
  template <class Source>
  __device__ RegisterFeed(Shared&, const Source& source, uint64_t pair, bool there) {
#pragma unroll
    for (uint32_t step = 0; step < kSteps; ++step) load(source, step, pair, there);
  }

  __device__ void take(uint32_t, uint32_t step, Vector (&into)[kStepVectors]) const {
#pragma unroll
    for (uint32_t i = 0; i < kStepVectors; ++i) into[i] = ahead_[step][i];
  }
  // After take(); `next` is the pair to come, if it is there.
  template <class Source>
  __device__ void fetch(const Source& source, uint32_t round, uint32_t step, uint64_t pair, uint64_t next, bool there) {
    load(source, step, round + 1 < kRounds ? pair + (round + 1) * kRoundBytes : next, round + 1 < kRounds || there);
  }

 private:
  template <class Source>
  __device__ void load(const Source& source, uint32_t step, uint64_t round, bool there) {
    if (!there) return;
    const uint64_t at = round + step * kStepBytes + threadIdx.x % 32 * kVectorBytes;
#pragma unroll
    for (uint32_t i = 0; i < kStepVectors; ++i) ahead_[step][i] = source.vector(at + offset_in_step(i));
  }
  Vector ahead_[kSteps][kStepVectors];
};

// By copies in bulk to shared memory, from compute capability 9.0 on: costs no registers and hardly any instructions.
// Each warp has room for a pair; a round's room takes the same round of the next pair.
class BulkFeed {
 public:
  static constexpr bool kFetchesEarly = true;
  struct Shared {
    alignas(128) Vector rooms[kWarps][kRounds][2][kRoundBytes / kVectorBytes];
    uint64_t arrived[kWarps][kRounds];
  };
  __device__ BulkFeed(Shared& shared, const PackedSource& source, uint64_t pair, bool there)
      : room_(static_cast<uint32_t>(__cvta_generic_to_shared(&shared.rooms[warp_number()]))),
        arrived_(static_cast<uint32_t>(__cvta_generic_to_shared(&shared.arrived[warp_number()]))) {
    if (is_chosen()) {
      for (uint32_t round = 0; round < kRounds; ++round)
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(arrived_ + 8 * round) : "memory");
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
      if (there)
        for (uint32_t round = 0; round < kRounds; ++round) copy(round, source.data + pair);
    }
    __syncwarp();
  }

  __device__ void take(uint32_t round, uint32_t step, Vector (&into)[kStepVectors]) const {
    if (step == 0) wait(round);
    const uint32_t from = room_ + round * (2 * kRoundBytes) + step * kStepBytes + threadIdx.x % 32 * kVectorBytes;
#pragma unroll
    for (uint32_t i = 0; i < kStepVectors; ++i)
      into[i] = load_shared(from + i / 2 * kRoundBytes + i % 2 * 32 * kVectorBytes);
  }
  __device__ void fetch(const PackedSource& source, uint32_t round, uint32_t step, uint64_t, uint64_t next,
                        bool there) {
    if (step + 1 < kSteps) return;
    __syncwarp();  // all lanes have taken theirs
    if (there && is_chosen()) copy(round, source.data + next);
    if (round + 1 == kRounds) turn_ ^= 1;
  }

 private:
  // One lane, by the instruction that lets the compiler know that it is one.
  __device__ static bool is_chosen() {
    uint32_t chosen;
    asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xFFFFFFFF;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(chosen));
    return chosen != 0;
  }

  __device__ void copy(uint32_t round, const std::byte* pair) const {
    const uint32_t arrived = arrived_ + 8 * round;
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(arrived), "n"(2 * kRoundBytes) : "memory");
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i)
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                       room_ + (2 * round + i) * kRoundBytes),
                   "l"(pair + i * kHashBlockBytes + round * kRoundBytes), "n"(kRoundBytes), "r"(arrived)
                   : "memory");
  }
  __device__ void wait(uint32_t round) const {
    uint32_t done;
    do {
      asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                   : "=r"(done)
                   : "r"(arrived_ + 8 * round), "r"(turn_)
                   : "memory");
    } while (done == 0);
  }
  uint32_t room_, arrived_;
  uint32_t turn_ = 0;  // of the barriers' two phases
};

}  // namespace ttap::cuda
