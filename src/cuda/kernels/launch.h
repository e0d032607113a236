#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cuda/kernels/compare_result.h"
#include "cuda/kernels/device_result.h"
#include "cuda/runtime/runtime.h"
#include "ttap/compare.h"
#include "ttap/tensor_view.h"

// The kernels, as the host calls them. None allocates, none waits; all can be captured into a graph.
namespace ttap::cuda {

// How many of a tensor's rows (its first axis) are read: all, or as many as device memory says when the kernel runs.
// More than there are means all, fewer than none means none.
struct Rows {
  const void* count = nullptr;
  bool is_64_bit = true;  // else 32; signed
};

// ---- fingerprint ----

struct FingerprintJob {
  TensorView view = {};  // in device memory; passes validate()
  Rows rows = {};
  void* copy_to = nullptr;         // device memory, on a multiple of 16: the elements read, in C order
  DeviceResult* result = nullptr;  // device or pinned memory
  bool is_watched = true;          // the result, by the host while the kernel runs; never one in device memory
  uint64_t sequence = 1;           // for DeviceResult::sequence
  bool is_sketched = true;
};

// What launches on one stream need: zeroed once, used by one launch after the other. Launches that may run side by side
// need one each.
inline constexpr size_t kScratchBytes = size_t{3} << 20;

// As few launches as they can be: see fingerprint.cu. The current device is the tensors'.
TTAP_API Status launch_fingerprints(std::span<const FingerprintJob> jobs, void* scratch, Stream stream);

// ---- comparison ----

struct CompareJob {
  TensorView view = {};  // in device memory; passes validate()
  Rows rows = {};
  const void* expected = nullptr;  // device memory: as many elements as the view has, in C order
  Tolerance tolerance = {};
  CompareState* state = nullptr;    // device memory, zeroed once
  CompareReport* report = nullptr;  // pinned memory, zeroed once
};

// One comparison more: counted, and the first that fails is kept. One after the other for one state.
Status launch_compare(const CompareJob& job, Stream stream);

// ---- the first elements ----

struct HeadJob {
  TensorView view = {};     // in device memory; passes validate()
  uint64_t elements = 0;    // how many, no more than there are
  std::byte* to = nullptr;  // device memory
};

Status launch_head(const HeadJob& job, Stream stream);

// ---- publishing what a graph made ----

struct PublishSegment {
  const std::byte* from = nullptr;  // device memory
  uint64_t bytes = 0;
  uint64_t to = 0;  // offset in the entry's payload, a multiple of 16
};

// In pinned memory, of one ring.
struct alignas(64) RingControl {
  uint64_t published = 0;             // the device's: entries written so far, over all replays
  uint64_t skipped = 0;               // the device's: replays that published nothing while the ring was closed
  alignas(64) uint64_t released = 0;  // the host's: entries it has done with; waited for when `waits`
  uint32_t open = 0;                  // the host's
  uint32_t waits = 0;                 // whether a full ring makes the device wait, until it gives up, or overwrite
};

// At the start of each entry. The payload is whole when both are index + 1, before and after it was read.
struct alignas(64) EntryHead {
  uint64_t begun = 0;
  uint64_t ended = 0;
};

// In device memory, zeroed, of one ring.
struct RingState {
  uint64_t next = 0;
  uint32_t blocks_done = 0;
};

struct PublishJob {
  const PublishSegment* segments = nullptr;  // device memory
  uint32_t segment_count = 0;
  std::byte* entries = nullptr;  // pinned memory
  uint64_t entry_bytes = 0;      // head and payload
  uint32_t capacity = 0;
  uint32_t blocks = 1;  // more for large payloads
  RingControl* control = nullptr;
  RingState* state = nullptr;
};

// Copies the segments into entry number `state->next % capacity` and counts.
Status launch_publish(const PublishJob& job, Stream stream);

}  // namespace ttap::cuda
