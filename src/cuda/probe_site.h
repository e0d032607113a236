#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cuda/kernels/launch.h"
#include "cuda/replay_ring.h"
#include "cuda/scratch_table.h"
#include "ttap/api.h"
#include "ttap/fingerprint.h"

namespace ttap::cuda {

// What a comparison expects, in the memory of a device.
struct TTAP_API ExpectedTensor {
  DeviceMemory memory = {};
  uint64_t bytes = 0;

  ExpectedTensor() = default;
  ExpectedTensor(const ExpectedTensor&) = delete;
  ExpectedTensor& operator=(const ExpectedTensor&) = delete;
};
// A copy of the elements of a tensor of the host. May be called while a graph is captured.
TTAP_API Result<std::shared_ptr<ExpectedTensor>> expected_on_device(const TensorView& tensor, int device);

// One place where a probe looks at a tensor on a device: one call in a captured graph, or calls one after the other on
// one stream. Each time the stream gets there, kernels take the fingerprint, copy what is wanted, compare, and publish
// it in a ring that the host reads. No thread of the host takes part.
//
// One thread at a time enqueues, one at a time reads; the two may differ.
class TTAP_API ProbeSite : public std::enable_shared_from_this<ProbeSite> {
 public:
  struct Options {
    int device = 0;
    uint64_t bytes = 0;           // of the largest tensor that will be enqueued
    bool keep_bytes = false;      // all of them; else the fingerprint only, and
    uint64_t head_elements = 0;   // this many from the beginning
    uint64_t element_bytes = 16;  // the largest that an element will have
    uint32_t capacity = 16;
    bool wait_when_full = false;
    bool compares = false;
  };
  // Allocates; may be called while a graph is captured.
  static Result<std::shared_ptr<ProbeSite>> create(const Options& options);
  ~ProbeSite() = default;
  ProbeSite(const ProbeSite&) = delete;
  ProbeSite& operator=(const ProbeSite&) = delete;

  struct Expectation {
    std::shared_ptr<ExpectedTensor> tensor;
    Tolerance tolerance;
  };
  // Puts the work on `stream`. The graph that is captured there, if one is, keeps this site from now on. `rows_owner`
  // is kept as long as the site.
  Status enqueue(const TensorView& tensor, const Rows& rows, std::shared_ptr<void> rows_owner,
                 const Expectation* expectation, Stream stream);

  // What one replay left; the oldest that was not read.
  struct Arrived {
    ReplayRing::Entry entry;
    Fingerprint fingerprint;
    uint64_t bytes;                    // of the tensor, that were looked at: fewer when its rows are limited
    std::span<const std::byte> taken;  // all of them, or the head
  };
  std::optional<Arrived> next();
  // Done with it; false: it was overwritten meanwhile, and what was read is void.
  bool release(const Arrived& arrived);

  uint64_t published() const;
  uint64_t overwritten() const;
  uint64_t skipped() const;
  const CompareReport* comparisons() const { return report_; }  // null when it does not compare

  // Replays after this leave nothing, and none waits. What has arrived can still be read.
  void close();

 private:
  ProbeSite() = default;

  Options options_;
  uint64_t taken_bytes_ = 0;
  DeviceMemory result_;
  DeviceMemory taken_;
  DeviceMemory compare_state_;
  PinnedMemory report_memory_;
  CompareReport* report_ = nullptr;
  std::shared_ptr<ReplayRing> ring_;
  std::shared_ptr<SharedScratch> scratch_;
  std::vector<std::shared_ptr<void>> kept_;
};

// Of the graph being captured on a stream, or 0.
TTAP_API uint64_t probe_capture_number(Stream stream);
// Why nothing on a device can be probed; empty when it can.
TTAP_API std::string probe_device_reason();

}  // namespace ttap::cuda
