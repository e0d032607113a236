#include <cstdint>

#include "cuda/kernels/launch.h"
#include "cuda/kernels/launch_status.h"

// The last node of a tapped graph: brings what the graph left in device memory to the next entry of the host's ring.
namespace ttap::cuda {
namespace {

constexpr unsigned kThreads = 512;
constexpr uint32_t kSawItClosed = 1 << 16;  // counted by blocks that did; the rest is how many blocks are done
constexpr unsigned kLongestSleep = 4096;    // ns, between two looks at the host's memory
// About half a minute. A host that has not made room by then may itself be waiting for this stream: from then on
// replays overwrite, and it counts them.
constexpr uint32_t kMostLooks = 5'000'000;

__device__ uint64_t look(const uint64_t* value) { return *reinterpret_cast<const volatile uint64_t*>(value); }

__device__ void copy_share(const PublishSegment& segment, std::byte* payload, unsigned first, unsigned step) {
  std::byte* to = payload + segment.to;
  const bool wide = reinterpret_cast<uintptr_t>(segment.from) % 16 == 0;
  const uint64_t vectors = wide ? segment.bytes / 16 : 0;
  const auto* from16 = reinterpret_cast<const uint4*>(segment.from);
  auto* to16 = reinterpret_cast<uint4*>(to);
  for (uint64_t i = first; i < vectors; i += step) to16[i] = from16[i];
  for (uint64_t i = vectors * 16 + first; i < segment.bytes; i += step) to[i] = segment.from[i];
}

__global__ void __launch_bounds__(kThreads) publish(const PublishJob job) {
  __shared__ uint64_t index;
  __shared__ bool open;
  if (threadIdx.x == 0) {
    index = look(&job.state->next);
    unsigned sleep = 64;
    for (uint32_t looks = 0;; ++looks) {
      open = *reinterpret_cast<const volatile uint32_t*>(&job.control->open) != 0;
      const bool waits = *reinterpret_cast<const volatile uint32_t*>(&job.control->waits) != 0;
      if (!open || !waits || index < look(&job.control->released) + job.capacity) break;
      if (looks == kMostLooks) {
        *reinterpret_cast<volatile uint32_t*>(&job.control->waits) = 0;
        break;
      }
      __nanosleep(sleep);
      if (sleep < kLongestSleep) sleep *= 2;
    }
  }
  __syncthreads();
  std::byte* entry = job.entries + (index % job.capacity) * job.entry_bytes;
  auto* head = reinterpret_cast<EntryHead*>(entry);
  if (open) {
    // Whoever reads the entry meanwhile sees that it is being replaced before any of it is: every block says so.
    if (threadIdx.x == 0) {
      *reinterpret_cast<volatile uint64_t*>(&head->begun) = index + 1;
      __threadfence_system();
    }
    __syncthreads();
    const unsigned first = blockIdx.x * kThreads + threadIdx.x;
    for (uint32_t i = 0; i < job.segment_count; ++i)
      copy_share(job.segments[i], entry + sizeof(EntryHead), first, gridDim.x * kThreads);
    __threadfence_system();
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  const uint32_t before = atomicAdd(&job.state->blocks_done, open ? 1 : 1 + kSawItClosed);
  if (before % kSawItClosed != gridDim.x - 1) return;
  job.state->blocks_done = 0;
  __threadfence_system();
  // The ring may have been closed between two blocks' looks: then the entry is not whole.
  if (!open || before >= kSawItClosed) {
    *reinterpret_cast<volatile uint64_t*>(&job.control->skipped) = look(&job.control->skipped) + 1;
    return;
  }
  *reinterpret_cast<volatile uint64_t*>(&head->ended) = index + 1;
  __threadfence_system();
  *reinterpret_cast<volatile uint64_t*>(&job.control->published) = index + 1;
  job.state->next = index + 1;
}

}  // namespace

Status launch_publish(const PublishJob& job, Stream stream) {
  publish<<<job.blocks, kThreads, 0, stream>>>(job);
  return launched("publishing a replay");
}

}  // namespace ttap::cuda
