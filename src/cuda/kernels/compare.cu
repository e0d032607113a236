#include <algorithm>
#include <cstdint>

#include "core/element_difference.h"
#include "cuda/kernels/lanes/element_layout.h"
#include "cuda/kernels/launch.h"
#include "cuda/kernels/launch_status.h"

// A tensor held against what was expected of it, on the device; and its first elements, for people to look at.
namespace ttap::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kWarps = kThreads / 32;
constexpr uint64_t kElementsPerThread = 8;
constexpr unsigned kMostBlocks = 1024;

struct Compare {
  ElementLayout layout;
  uint64_t elements = 0;
  uint64_t per_row = 0;
  Rows rows;
  const std::byte* expected = nullptr;
  DType dtype = DType::kF32;
  bool aligned = true;
  Tolerance tolerance;
  CompareState* state = nullptr;
  CompareReport* report = nullptr;
};

struct Found {
  unsigned long long differing = 0;
  unsigned long long not_first = 0;
  double largest = 0;

  __device__ void add(const Found& other) {
    differing += other.differing;
    if (other.not_first > not_first) not_first = other.not_first;
    if (other.largest > largest) largest = other.largest;
  }
};

template <int SIZE>
struct alignas(SIZE) Element {
  unsigned char bytes[SIZE];
};

// One load where the address allows it.
template <int SIZE>
__device__ Element<SIZE> load(const std::byte* from, bool aligned) {
  if (aligned) return *reinterpret_cast<const Element<SIZE>*>(from);
  Element<SIZE> element;
  for (int i = 0; i < SIZE; ++i) element.bytes[i] = static_cast<unsigned char>(from[i]);
  return element;
}

__device__ uint64_t live_elements(const Compare& job) {
  if (job.rows.count == nullptr) return job.elements;
  const int64_t rows =
      job.rows.is_64_bit ? *static_cast<const int64_t*>(job.rows.count) : *static_cast<const int32_t*>(job.rows.count);
  if (rows <= 0 || job.per_row == 0) return 0;
  const uint64_t all = job.elements / job.per_row;
  return (static_cast<uint64_t>(rows) < all ? static_cast<uint64_t>(rows) : all) * job.per_row;
}

__device__ Found shuffled_down(const Found& found, int by) {
  Found other;
  other.differing = __shfl_down_sync(0xFFFFFFFFu, found.differing, by);
  other.not_first = __shfl_down_sync(0xFFFFFFFFu, found.not_first, by);
  other.largest = __shfl_down_sync(0xFFFFFFFFu, found.largest, by);
  return other;
}

// The sum of all threads' in thread 0.
__device__ Found over_block(Found found) {
  __shared__ Found of_warp[kWarps];
  for (int by = 16; by > 0; by /= 2) found.add(shuffled_down(found, by));
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = found;
  __syncthreads();
  if (threadIdx.x != 0) return found;
  for (unsigned warp = 1; warp < kWarps; ++warp) found.add(of_warp[warp]);
  return found;
}

// Of the last block: everything the others found is in the state.
template <int SIZE>
__device__ void report(const Compare& job, uint64_t live) {
  CompareState& state = *job.state;
  volatile CompareReport& to = *job.report;
  const unsigned long long differing = atomicExch(&state.differing, 0ULL);
  const uint64_t first = ~atomicExch(&state.not_first, 0ULL);
  const unsigned long long largest_bits = atomicExch(&state.largest_bits, 0ULL);
  state.blocks_done = 0;
  const uint64_t number = state.comparisons++;
  if (differing > 0) {
    if (state.failures == 0) {
      const auto actual = load<SIZE>(job.layout.element(first), job.aligned);
      const auto expected = load<SIZE>(job.expected + first * SIZE, true);
      to.failed_comparison = number;
      to.differing = differing;
      to.first = first;
      to.largest = __longlong_as_double(static_cast<long long>(largest_bits));
      to.elements = live;
      for (int i = 0; i < SIZE; ++i) to.actual[i] = actual.bytes[i];
      for (int i = 0; i < SIZE; ++i) to.expected[i] = expected.bytes[i];
      __threadfence_system();
    }
    to.failures = ++state.failures;
  }
  __threadfence_system();
  to.comparisons = number + 1;
}

template <int SIZE>
__global__ void __launch_bounds__(kThreads) compare(const __grid_constant__ Compare job) {
  const uint64_t live = live_elements(job);
  Found found;
  for (uint64_t i = blockIdx.x * uint64_t{kThreads} + threadIdx.x; i < live; i += uint64_t{gridDim.x} * kThreads) {
    const auto actual = load<SIZE>(job.layout.element(i), job.aligned);
    const auto expected = load<SIZE>(job.expected + i * SIZE, true);
    const ElementDifference difference = difference_of(job.dtype, actual.bytes, expected.bytes, job.tolerance);
    if (!difference.close) found.add({1, ~static_cast<unsigned long long>(i), difference.distance});
  }
  found = over_block(found);
  if (threadIdx.x != 0) return;
  if (found.differing > 0) {
    atomicAdd(&job.state->differing, found.differing);
    atomicMax(&job.state->not_first, found.not_first);
    atomicMax(&job.state->largest_bits, static_cast<unsigned long long>(__double_as_longlong(found.largest)));
  }
  __threadfence();
  if (atomicAdd(&job.state->blocks_done, 1U) == gridDim.x - 1) report<SIZE>(job, live);
}

__global__ void __launch_bounds__(kThreads)
    copy_head(const __grid_constant__ ElementLayout layout, uint64_t elements, uint32_t size, std::byte* to) {
  for (uint64_t i = threadIdx.x; i < elements; i += kThreads) {
    const std::byte* from = layout.element(i);
    for (uint32_t b = 0; b < size; ++b) to[i * size + b] = from[b];
  }
}

bool is_aligned(const TensorView& view) { return reinterpret_cast<uintptr_t>(view.data) % size_of(view.dtype) == 0; }

}  // namespace

Status launch_compare(const CompareJob& job, Stream stream) {
  const uint64_t elements = element_count(job.view);
  Compare compared{
      .layout = element_layout(job.view),
      .elements = elements,
      .per_row = job.view.ndim() > 0 && job.view.shape[0] > 0 ? elements / static_cast<uint64_t>(job.view.shape[0]) : 0,
      .rows = job.rows,
      .expected = static_cast<const std::byte*>(job.expected),
      .dtype = job.view.dtype,
      .aligned = is_aligned(job.view),
      .tolerance = job.tolerance,
      .state = job.state,
      .report = job.report};
  const uint64_t wanted = (elements + kThreads * kElementsPerThread - 1) / (kThreads * kElementsPerThread);
  const auto blocks = static_cast<unsigned>(std::clamp<uint64_t>(wanted, 1, kMostBlocks));
  switch (size_of(job.view.dtype)) {
    case 1: compare<1><<<blocks, kThreads, 0, stream>>>(compared); break;
    case 2: compare<2><<<blocks, kThreads, 0, stream>>>(compared); break;
    case 4: compare<4><<<blocks, kThreads, 0, stream>>>(compared); break;
    case 8: compare<8><<<blocks, kThreads, 0, stream>>>(compared); break;
    default: compare<16><<<blocks, kThreads, 0, stream>>>(compared); break;
  }
  return launched("comparing a tensor");
}

Status launch_head(const HeadJob& job, Stream stream) {
  if (job.elements == 0) return {};
  copy_head<<<1, kThreads, 0, stream>>>(element_layout(job.view), job.elements,
                                        static_cast<uint32_t>(size_of(job.view.dtype)), job.to);
  return launched("copying the head of a tensor");
}

}  // namespace ttap::cuda
