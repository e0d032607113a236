#include "torch/gpu/gpu_taps.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "cuda/stream_scratch.h"
#include "torch/gpu/cuda_stream.h"

namespace ttap::torch_source {
namespace {

constexpr size_t kMostWaiting = 64;
// More than this is not held back from the model's allocator, nor more than a small part of what the GPU has. Several
// of a prefill's tensors, so that they share the fixed time of a launch.
constexpr uint64_t kMostWaitingBytes = 256 << 20;
constexpr uint64_t kPartOfMemory = 512;
constexpr uint64_t kLargeBytes = 1 << 20;

// Without a look at whether it may be read: torch.compile forbids it for what a later replay has overwritten, by an
// exception.
const void* data_of(const c10::Storage& storage) {
  return storage.unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().get();
}

}  // namespace

bool GpuTaps::work() { return cuda::available() && CudaStreams::found(); }
uint64_t GpuTaps::capture_of(int device) {
  return is_capturing() && work() ? cuda::capture_number(CudaStreams::current(device)) : 0;
}

// ---- a tensor ----

cuda::PendingResult GpuTaps::fingerprint(const at::Tensor& tensor, const TensorView& view, Level level, Hold hold,
                                         Deliver deliver) {
  const int device = tensor.device().index();
  const cuda::Stream stream = CudaStreams::current(device);
  // What the batch needs is asked for once, by the first that comes.
  Batch* batch = find_batch(device, stream, 0);
  if (batch == nullptr) {
    const cuda::OnDevice on(device);
    // Somebody captures unseen: what is launched there would run with each replay, and write where others wait by then.
    if (cuda::capture_number(stream) != 0) return {};
    const auto memory = cuda::StreamScratch::of_process().of(device, stream);
    if (!memory.ok()) return {};
    batch = &make_batch(device, stream, 0, *memory);
  }
  const cuda::PendingResult pending = cuda::ResultPool::of_process().take(device, stream);
  if (!pending) return {};
  add(*batch, tensor, hold,
      {.job = {.view = view,
               .rows = rows_of(view),
               .result = pending.result,
               .sequence = pending.sequence,
               .is_sketched = keeps_sketch(level)},
       .pending = pending,
       .deliver = std::move(deliver)});
  return pending;
}

Result<GraphPass::Tap> GpuTaps::tap(GraphPass& graph, const at::Tensor& tensor, const TensorView& view, Level level,
                                    Hold hold) {
  const int device = tensor.device().index();
  if (device != graph.memory().device())
    return Error{.code = ErrorCode::kUnsupported, .message = "the tensor is on another GPU than the graph"};
  const cuda::Stream stream = CudaStreams::current(device);
  TTAP_ASSIGN(const GraphPass::Tap tap, graph.add_tap(level, byte_count(view)));
  const uint64_t capture = cuda::capture_number(stream);
  Batch* batch = find_batch(device, stream, capture);
  if (batch == nullptr) {
    const std::lock_guard lock(graph.mutex());
    TTAP_ASSIGN(void* memory, graph.memory().scratch(stream));
    batch = &make_batch(device, stream, capture, memory);
  }
  add(*batch, tensor, hold,
      {.job = {.view = view,
               .rows = rows_of(view),
               .copy_to = tap.place.copy,
               .result = tap.place.result,
               .is_watched = false,
               .is_sketched = keeps_sketch(tap.level)}});
  return tap;
}

GpuTaps::Batch* GpuTaps::find_batch(int device, cuda::Stream stream, uint64_t capture) {
  for (const auto& batch : batches_)
    if (batch->device == device && batch->stream == stream && batch->capture == capture) return batch.get();
  return nullptr;
}

GpuTaps::Batch& GpuTaps::make_batch(int device, cuda::Stream stream, uint64_t capture, void* scratch) {
  batches_.push_back(std::make_unique<Batch>());
  Batch& batch = *batches_.back();
  batch.device = device;
  batch.stream = stream;
  batch.capture = capture;
  batch.scratch = scratch;
  batch.most_bytes = std::min(kMostWaitingBytes, cuda::memory_of(device) / kPartOfMemory);
  return batch;
}

void GpuTaps::note_late(const Batch& batch) {
  const LaunchedLate late{batch.device, batch.stream, batch.capture};
  if (std::find(late_.begin(), late_.end(), late) == late_.end()) late_.push_back(late);
}

// Gives the memory that the model's allocator has to do without if it waits: all of the storage, once.
uint64_t GpuTaps::hold_storage(const Batch& batch, const at::Tensor& tensor, Waiting& waiting) {
  waiting.storage = tensor.storage();
  waiting.storage_data = data_of(waiting.storage);
  bool is_held = false;
  for (const Waiting& each : batch.jobs) {
    if (each.storage.unsafeGetStorageImpl() != waiting.storage.unsafeGetStorageImpl()) continue;
    is_held = true;
    waiting.is_new |= each.is_new;
  }
  return is_held ? 0 : waiting.storage.nbytes();
}

void GpuTaps::add(Batch& batch, const at::Tensor& tensor, Hold hold, Waiting waiting) {
  waiting.is_new = hold == Hold::kYes;
  const uint64_t bytes = hold != Hold::kNo ? hold_storage(batch, tensor, waiting) : 0;
  const auto forget = [&] { std::erase_if(batches_, [&](const auto& each) { return each.get() == &batch; }); };
  const bool is_large = byte_count(waiting.job.view) >= kLargeBytes;
  if (hold == Hold::kIfSmall && is_large && !waiting.is_new) {
    std::vector<Waiting> alone;
    alone.push_back(std::move(waiting));
    launch(batch, std::move(alone));
    if (batch.jobs.empty()) forget();
    return;
  }
  batch.jobs.push_back(std::move(waiting));
  batch.bytes += bytes;
  // Where one may not be held, neither may those from before: the root of a backward pass is among them.
  if (hold != Hold::kNo && batch.jobs.size() < kMostWaiting && batch.bytes < batch.most_bytes) return;
  // What the program has made wait for this stream before now does not wait for those that were held back.
  if (batch.jobs.size() > 1) note_late(batch);
  launch(batch, std::exchange(batch.jobs, {}));
  forget();
}

// ---- launching ----

bool GpuTaps::would_change(const at::Tensor& written) const {
  if (!written.has_storage()) return false;
  const c10::StorageImpl* storage = written.storage().unsafeGetStorageImpl();
  for (const auto& batch : batches_)
    for (const Waiting& each : batch->jobs)
      if (each.storage.unsafeGetStorageImpl() == storage) return true;
  return false;
}

bool GpuTaps::is_elsewhere() const {
  const auto elsewhere = [](int device, cuda::Stream stream) { return stream != CudaStreams::current(device); };
  return std::any_of(batches_.begin(), batches_.end(),
                     [&](const auto& batch) { return elsewhere(batch->device, batch->stream); }) ||
         std::any_of(late_.begin(), late_.end(),
                     [&](const LaunchedLate& late) { return elsewhere(late.device, late.stream); });
}

// Whoever waits for it must learn that it will not come.
void GpuTaps::lose(const Waiting& waiting) {
  ++lost_;
  if (!waiting.pending) return;
  if (waiting.deliver) {
    cuda::ResultPool::of_process().give_back(waiting.pending);
    return waiting.deliver({});
  }
  cuda::DeviceResult& result = *waiting.pending.result;
  result.bytes = cuda::kLostBytes;
  std::atomic_ref(result.sequence).store(waiting.pending.sequence, std::memory_order_release);
}

void GpuTaps::launch(const Batch& batch, std::vector<Waiting> waiting) {
  std::vector<cuda::FingerprintJob> jobs;
  const cuda::OnDevice on(batch.device);
  // A capture that nobody announced: its replays would write to memory that is somebody else's by then.
  const bool sound = cuda::capture_number(batch.stream) == batch.capture;
  const auto is_there = [&](const Waiting& each) {
    // A storage can be emptied while others hold it (FSDP does), past any operator.
    return sound && (!each.storage || data_of(each.storage) == each.storage_data);
  };
  for (const Waiting& each : waiting)
    if (is_there(each)) jobs.push_back(each.job);
  const bool done = !jobs.empty() && cuda::launch_fingerprints(jobs, batch.scratch, batch.stream).ok();
  for (const Waiting& each : waiting) {
    // After a failure some may be on their way: one by one, each by itself. Twice does no harm.
    if (!is_there(each) || (!done && !cuda::launch_fingerprints({&each.job, 1}, batch.scratch, batch.stream).ok()))
      lose(each);
    else if (each.deliver)
      each.deliver(each.pending);
  }
}

// What runs on the one next may write to what is being read on the other, or get its memory.
void GpuTaps::make_wait(int device, cuda::Stream waits, cuda::Stream other) {
  const cuda::OnDevice on(device);
  // A graph cannot wait for what is outside, nor what is outside for it.
  if (waits == other || cuda::capture_number(waits) != cuda::capture_number(other)) return;
  const auto event = cuda::make_event();
  if (!event.ok()) return;
  if (cuda::record(*event, other).ok()) (void)cuda::wait(waits, *event);
  cuda::destroy_event(*event);
}

void GpuTaps::launch_all() {
  for (const auto& batch : batches_) {
    launch(*batch, std::exchange(batch->jobs, {}));
    note_late(*batch);
  }
  batches_.clear();
  for (const LaunchedLate& late : late_) make_wait(late.device, CudaStreams::current(late.device), late.stream);
  std::erase_if(late_, [](const LaunchedLate& late) { return late.stream != CudaStreams::current(late.device); });
}

void GpuTaps::end_capture(int device, cuda::Stream stream) {
  const uint64_t capture = cuda::capture_number(stream);
  for (const auto& batch : batches_)
    if (batch->capture == capture) {
      launch(*batch, std::exchange(batch->jobs, {}));
      if (batch->device == device) make_wait(device, stream, batch->stream);
    }
  std::erase_if(batches_, [](const auto& batch) { return batch->jobs.empty(); });
  for (const LaunchedLate& late : late_)
    if (late.capture == capture && late.device == device) make_wait(device, stream, late.stream);
  std::erase_if(late_, [&](const LaunchedLate& late) { return late.capture == capture; });
}

}  // namespace ttap::torch_source
