#include "host_runtime.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/logical_copy.h"
#include "core/mix64.h"
#include "cuda/kernels/launch.h"
#include "cuda/publish_on_host.h"
#include "cuda/unmixed.h"
#include "ttap/fingerprint.h"

namespace {

std::atomic<bool> device_failed[ttap::cuda::host::kDevices];

void pause_a_little() { std::this_thread::sleep_for(std::chrono::microseconds(20)); }

}  // namespace

// ---- streams: one thread each ----

struct CUstream_st {
  explicit CUstream_st(int on) : device(on), worker([this] { run(); }) {}
  ~CUstream_st() {
    {
      const std::lock_guard lock(mutex);
      ending = true;
      changed.notify_all();
    }
    worker.join();
  }

  void put(std::function<void()> work) {
    const std::lock_guard lock(mutex);
    queue.push_back(std::move(work));
    ++put_count;
    changed.notify_all();
  }
  void wait_for_all() {
    std::unique_lock lock(mutex);
    const uint64_t until = put_count;
    changed.wait(lock, [&] { return done_count >= until; });
  }

  bool is_idle() {
    const std::lock_guard lock(mutex);
    return done_count == put_count;
  }

  void run() {
    uint64_t random = reinterpret_cast<uintptr_t>(this);
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return !queue.empty() || ending; });
      if (queue.empty()) return;
      std::function<void()> work = std::move(queue.front());
      queue.pop_front();
      lock.unlock();
      random = ttap::mix64(random + 1);
      if (random % 16 == 0) pause_a_little();
      if (!device_failed[device]) work();
      lock.lock();
      ++done_count;
      changed.notify_all();
    }
  }

  const int device;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> queue;
  uint64_t put_count = 0;
  uint64_t done_count = 0;
  bool ending = false;
  std::atomic<uint64_t> captured{0};
  std::thread worker;  // last: it uses the others
};

struct CUevent_st {
  struct Recorded {
    std::atomic<bool> done{false};
    int device = 0;
  };
  std::shared_ptr<Recorded> recorded;  // the latest
};

namespace ttap::cuda {
namespace {

thread_local int device_here = 0;
thread_local uint64_t synchronizing = 0;
std::atomic<int64_t> copies_left{-1};
std::atomic<bool> streams_can_wait{true};
std::atomic<uint64_t> launch_count{0};
std::atomic<uint64_t> bytes_on_devices{0};
std::atomic<uint64_t> bytes_pinned{0};

Error failure(const char* what) { return {.code = ErrorCode::kUnsupported, .message = std::string("host: ") + what}; }

CUstream_st& stream_of(Stream stream) {
  if (stream != nullptr) return *stream;
  static std::mutex mutex;
  static auto* defaults = new std::map<int, CUstream_st>;  // never destroyed, as the driver's are not
  const std::lock_guard lock(mutex);
  return defaults->try_emplace(device_here, device_here).first->second;
}

Status put(Stream stream, std::function<void()> work) {
  CUstream_st& to = stream_of(stream);
  if (device_failed[to.device]) return failure("the device has failed");
  if (to.captured != 0) return failure("work was put on a stream that is being captured");
  to.put(std::move(work));
  return {};
}

bool is_done(const CUevent_st::Recorded& recorded) { return recorded.done || device_failed[recorded.device]; }

// The size is kept in front, to count and to overwrite.
void* allocate(size_t bytes, std::atomic<uint64_t>& counter) {
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(256, (bytes + 511) / 256 * 256));
  std::memcpy(memory, &bytes, sizeof bytes);
  std::memset(memory + 256, 0xAB, bytes);
  counter += bytes;
  return memory + 256;
}
void release(void* memory, std::atomic<uint64_t>& counter) {
  if (memory == nullptr) return;
  std::byte* start = static_cast<std::byte*>(memory) - 256;
  size_t bytes = 0;
  std::memcpy(&bytes, start, sizeof bytes);
  std::memset(memory, 0xDD, bytes);
  counter -= bytes;
  std::free(start);
}

}  // namespace

namespace host {

void fill(void* memory, uint8_t value, size_t bytes, Stream stream) {
  (void)put(stream, [=] { std::memset(memory, value, bytes); });
}
void hold(Stream stream, uint64_t* until_one) {
  (void)put(stream, [=] {
    while (std::atomic_ref(*until_one).load() != 1) pause_a_little();
  });
}
void fail(int device) { device_failed[device] = true; }
void refuse_copies_after(int64_t count) { copies_left = count; }
void let_streams_wait(bool can) { streams_can_wait = can; }
void set_captured(Stream stream, uint64_t number) { stream_of(stream).captured = number; }
uint64_t launches() { return launch_count; }
uint64_t device_bytes() { return bytes_on_devices; }
uint64_t pinned_bytes() { return bytes_pinned; }
uint64_t synchronizing_calls() { return synchronizing; }

}  // namespace host

bool available() { return true; }
std::string unavailable_reason() { return {}; }
int device_count() { return host::kDevices; }
int multiprocessors(int) { return 1; }
uint64_t memory_of(int) { return 0; }

int current_device() { return device_here; }
OnDevice::OnDevice(int device) : before_(device_here) { device_here = device; }
OnDevice::~OnDevice() { device_here = before_; }
WhileCapturing::WhileCapturing() : before_(0) {}
WhileCapturing::~WhileCapturing() = default;

// ---- memory ----

Result<void*> allocate_on_device(size_t bytes) { return allocate(bytes, bytes_on_devices); }
void free_on_device(void* memory) { release(memory, bytes_on_devices); }
Result<void*> allocate_pinned(size_t bytes) { return allocate(bytes, bytes_pinned); }
void free_pinned(void* memory) { release(memory, bytes_pinned); }
Status copy(void* to, const void* from, size_t bytes, Stream stream) {
  if (copies_left == 0) return failure("the copy was refused");
  if (copies_left > 0) --copies_left;
  return put(stream, [=] { std::memcpy(to, from, bytes); });
}
Status set_to_zero(void* memory, size_t bytes, Stream stream) {
  return put(stream, [=] { std::memset(memory, 0, bytes); });
}

// ---- order ----

Result<Stream> make_stream() { return new CUstream_st(device_here); }
void destroy_stream(Stream stream) { delete stream; }
uint64_t stream_number(Stream stream) {
  EXPECT_EQ(capture_number(stream), 0u) << "a stream that is captured was asked for its number: CUDA ends the capture";
  return reinterpret_cast<uintptr_t>(&stream_of(stream));
}
Status synchronize(Stream stream) {
  ++synchronizing;
  CUstream_st& with = stream_of(stream);
  with.wait_for_all();
  return device_failed[with.device] ? Status(failure("the device has failed")) : Status{};
}

Result<EventHandle> make_event() { return new CUevent_st; }
void destroy_event(EventHandle event) { delete event; }
Status record(EventHandle event, Stream stream) {
  auto recorded = std::make_shared<CUevent_st::Recorded>();
  recorded->device = stream_of(stream).device;
  event->recorded = recorded;
  return put(stream, [recorded] { recorded->done = true; });
}
Status wait(Stream stream, EventHandle event) {
  return put(stream, [recorded = event->recorded] {
    while (recorded && !is_done(*recorded)) pause_a_little();
  });
}
Status synchronize(EventHandle event) {
  ++synchronizing;
  const auto recorded = event->recorded;
  while (recorded && !is_done(*recorded)) pause_a_little();
  return !recorded || recorded->done ? Status{} : Status(failure("the device has failed"));
}
Progress query(EventHandle event) {
  const auto recorded = event->recorded;
  if (!recorded || recorded->done) return Progress::kDone;
  return device_failed[recorded->device] ? Progress::kFailed : Progress::kUnderWay;
}
Progress query(Stream stream) {
  CUstream_st& of = stream_of(stream);
  if (device_failed[of.device]) return Progress::kFailed;
  return of.captured == 0 && of.is_idle() ? Progress::kDone : Progress::kUnderWay;
}

Status wait_until(Stream stream, const uint64_t* value, uint64_t wanted) {
  if (!streams_can_wait) return failure("streams cannot wait for memory");
  const int device = stream_of(stream).device;
  return put(stream, [=] {
    const std::atomic_ref now(const_cast<uint64_t&>(*value));
    while (static_cast<int64_t>(now.load() - wanted) < 0 && !device_failed[device]) pause_a_little();
  });
}
Status store(Stream stream, uint64_t* value, uint64_t what) {
  if (!streams_can_wait) return failure("streams cannot write memory");
  return put(stream, [=] { std::atomic_ref(*value).store(what); });
}

Status health(int device) { return device_failed[device] ? Status(failure("the device has failed")) : Status{}; }

uint64_t capture_number(Stream stream) { return stream_of(stream).captured; }
Status keep_with_graph(Stream, void*, void (*)(void*)) { return failure("no graphs"); }

// ---- kernels ----

namespace {

void take_fingerprint(const FingerprintJob& job, std::vector<int64_t> shape, const std::vector<int64_t>& strides) {
  if (job.rows.count != nullptr && !shape.empty()) {
    const int64_t rows = job.rows.is_64_bit ? *static_cast<const int64_t*>(job.rows.count)
                                            : *static_cast<const int32_t*>(job.rows.count);
    shape[0] = std::clamp<int64_t>(rows, 0, shape[0]);
  }
  const TensorView view{job.view.data, job.view.dtype, shape, strides};
  const LogicalCopy elements(view);
  if (job.copy_to != nullptr) elements.copy(0, elements.elements(), job.copy_to);
  const Fingerprint found = fingerprint(view);
  DeviceResult& result = *job.result;
  const double finite = static_cast<double>(found.stats.finite());
  const HashPair digests = test::digests_of(found.hash, byte_count(view));
  result.totals = {.squares = {finite > 0 ? found.stats.std * found.stats.std * finite : 0},
                   .l1 = found.stats.l1,
                   .min = found.stats.min,
                   .minus_max = -found.stats.max,
                   .min_abs_nonzero = found.stats.min_abs_nonzero,
                   .digest_a = digests.a,
                   .digest_b = digests.b,
                   .nan = found.stats.nan,
                   .pos_inf = found.stats.pos_inf,
                   .neg_inf = found.stats.neg_inf,
                   .subnormals = found.stats.subnormals,
                   .zeros = found.stats.zeros,
                   .finite = found.stats.finite()};
  result.centre = finite > 0 ? found.stats.mean : 0;
  result.bytes = byte_count(view);
  result.has_sketch = found.has_sketch ? 1 : 0;
  std::ranges::copy(found.sketch, result.sketch);
  std::atomic_ref(result.sequence).store(job.sequence, std::memory_order_release);
}

}  // namespace

Status launch_fingerprints(std::span<const FingerprintJob> jobs, void* scratch, Stream stream) {
  if (scratch == nullptr) return failure("no scratch memory");
  for (const FingerprintJob& job : jobs) {
    ++launch_count;
    if (reinterpret_cast<uintptr_t>(job.copy_to) % 16 != 0) return failure("the copy is not aligned");
    TTAP_TRY(put(stream, [job, shape = std::vector<int64_t>(job.view.shape.begin(), job.view.shape.end()),
                          strides = std::vector<int64_t>(job.view.strides.begin(), job.view.strides.end())] {
      take_fingerprint(job, shape, strides);
    }));
  }
  return {};
}

Status launch_publish(const PublishJob& job, Stream stream) {
  return put(stream, [job] { publish_on_host(job, pause_a_little); });
}

}  // namespace ttap::cuda
