#include "cuda/graph_runtime.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "core/compare_tensors.h"
#include "core/logical_copy.h"
#include "cuda/kernels/lanes/element_layout.h"
#include "cuda/kernels/launch.h"
#include "cuda/publish_on_host.h"
#include "cuda/unmixed.h"

namespace ttap::cuda {
namespace {

struct Graph {
  std::vector<std::function<void()>> work;
  std::vector<std::pair<void*, void (*)(void*)>> kept;
};

std::map<uint64_t, Graph> all_graphs;
uint64_t captured = 0;
uint64_t next_number = 1;
std::atomic<int64_t> allocated = 0;

Status put(std::function<void()> work) {
  if (captured != 0)
    all_graphs[captured].work.push_back(std::move(work));
  else
    work();
  return {};
}

void* allocate(size_t bytes) {
  ++allocated;
  void* memory = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  std::memset(memory, 0xCD, bytes);
  return memory;
}
void give_back(void* memory) {
  if (memory != nullptr) --allocated;
  std::free(memory);
}

// A view that owns its shape, as a kernel has it in its parameters.
class Kept {
 public:
  explicit Kept(const TensorView& view)
      : data_(view.data),
        dtype_(view.dtype),
        shape_(view.shape.begin(), view.shape.end()),
        strides_(view.strides.begin(), view.strides.end()) {}

  Kept live(const Rows& rows) const {
    Kept part = *this;
    if (rows.count == nullptr) return part;
    const int64_t count =
        rows.is_64_bit ? *static_cast<const int64_t*>(rows.count) : *static_cast<const int32_t*>(rows.count);
    part.shape_[0] = std::clamp<int64_t>(count, 0, shape_[0]);
    return part;
  }
  TensorView view() const { return {data_, dtype_, shape_, strides_}; }
  TensorView in_c_order(const void* data) const { return {data, dtype_, shape_, {}}; }

 private:
  const void* data_;
  DType dtype_;
  std::vector<int64_t> shape_;
  std::vector<int64_t> strides_;
};

}  // namespace

namespace graphs {

uint64_t begin_capture() {
  captured = next_number++;
  all_graphs[captured] = {};
  return captured;
}
void end_capture() { captured = 0; }
void replay(uint64_t graph) {
  for (const auto& work : all_graphs.at(graph).work) work();
}
void destroy(uint64_t graph) {
  const Graph gone = std::move(all_graphs.at(graph));
  all_graphs.erase(graph);
  for (const auto& [object, release] : gone.kept) release(object);
}
int64_t allocations() { return allocated; }

}  // namespace graphs

bool available() { return true; }
std::string unavailable_reason() { return {}; }
int device_count() { return 1; }
int multiprocessors(int) { return 1; }
uint64_t memory_of(int) { return 0; }
int current_device() { return 0; }
OnDevice::OnDevice(int) : before_(-1) {}
OnDevice::~OnDevice() = default;
WhileCapturing::WhileCapturing() : before_(0) {}
WhileCapturing::~WhileCapturing() = default;

Result<void*> allocate_on_device(size_t bytes) { return allocate(bytes); }
void free_on_device(void* memory) { give_back(memory); }
Result<void*> allocate_pinned(size_t bytes) { return allocate(bytes); }
void free_pinned(void* memory) { give_back(memory); }
// On streams of our own only, which are never captured.
Status copy(void* to, const void* from, size_t bytes, Stream) {
  std::memcpy(to, from, bytes);
  return {};
}
Status set_to_zero(void* memory, size_t bytes, Stream) {
  std::memset(memory, 0, bytes);
  return {};
}

Result<Stream> make_stream() { return graphs::some_stream(); }
void destroy_stream(Stream) {}
uint64_t stream_number(Stream stream) {
  EXPECT_EQ(captured, 0u) << "a stream that is captured was asked for its number: CUDA ends the capture";
  return reinterpret_cast<uintptr_t>(stream);
}
Status synchronize(Stream) { return {}; }
Result<EventHandle> make_event() { return static_cast<EventHandle>(nullptr); }
void destroy_event(EventHandle) {}
Status record(EventHandle, Stream) { return {}; }
Status wait(Stream, EventHandle) { return {}; }
Status synchronize(EventHandle) { return {}; }
Progress query(EventHandle) { return Progress::kDone; }
Progress query(Stream) { return Progress::kDone; }
Status wait_until(Stream, const uint64_t*, uint64_t) { return {}; }
Status store(Stream, uint64_t*, uint64_t) { return {}; }
Status health(int) { return {}; }

uint64_t capture_number(Stream) { return captured; }
Status keep_with_graph(Stream, void* object, void (*release)(void*)) {
  all_graphs.at(captured).kept.emplace_back(object, release);
  return {};
}

// ---- kernels ----

Status launch_fingerprints(std::span<const FingerprintJob> jobs, void*, Stream) {
  for (const FingerprintJob& job : jobs)
    TTAP_TRY(put([job, kept = Kept(job.view)] {
      const Kept live = kept.live(job.rows);
      const Fingerprint taken = fingerprint(live.view());
      if (job.copy_to != nullptr) {
        const LogicalCopy elements(live.view());
        elements.copy(0, elements.elements(), job.copy_to);
      }
      const HashPair digests = test::digests_of(taken.hash, byte_count(live.view()));
      // Of the statistics only what the tests look at.
      *job.result = {.totals = {.min = taken.stats.min,
                                .minus_max = -taken.stats.max,
                                .digest_a = digests.a,
                                .digest_b = digests.b,
                                .nan = taken.stats.nan,
                                .finite = taken.stats.finite()},
                     .bytes = byte_count(live.view()),
                     .sequence = job.sequence,
                     .has_sketch = 0,
                     .sketch = {}};
    }));
  return {};
}

Status launch_compare(const CompareJob& job, Stream) {
  return put([job, kept = Kept(job.view)] {
    const Kept live = kept.live(job.rows);
    const Comparison found = compare_tensors(live.view(), live.in_c_order(job.expected), job.tolerance);
    const uint64_t number = job.state->comparisons++;
    CompareReport& report = *job.report;
    if (found.differing > 0) {
      if (job.state->failures == 0) {
        report.failed_comparison = number;
        report.differing = found.differing;
        report.first = found.first;
        report.largest = found.largest;
        report.elements = element_count(live.view());
        std::memcpy(report.actual, found.actual.data(), sizeof report.actual);
        std::memcpy(report.expected, found.expected.data(), sizeof report.expected);
      }
      std::atomic_ref(report.failures).store(++job.state->failures);
    }
    std::atomic_ref(report.comparisons).store(number + 1);
  });
}

Status launch_head(const HeadJob& job, Stream) {
  const size_t size = size_of(job.view.dtype);
  return put([job, size, layout = element_layout(job.view)] {
    for (uint64_t i = 0; i < job.elements; ++i) std::memcpy(job.to + i * size, layout.element(i), size);
  });
}

Status launch_publish(const PublishJob& job, Stream) {
  return put([job] { publish_on_host(job, [] { std::this_thread::sleep_for(std::chrono::microseconds(20)); }); });
}

}  // namespace ttap::cuda
