#include <fmt/format.h>

#include <chrono>
#include <new>
#include <thread>

#include "capture/recorder_impl.h"
#include "cuda/kernels/launch.h"
#include "cuda/stream_scratch.h"

// What capture() does with a tensor in the memory of a GPU: launches, and never waits for the GPU.
namespace ttap {
namespace {

constexpr std::chrono::microseconds kLookForResult{100};

// What a launch for the tensor needs; or why there can be none. The device must be the current one.
struct Launch {
  cuda::Stream stream;
  void* scratch;
};
Result<Launch> launch_on(const OnGpu& gpu) {
  auto* stream = static_cast<cuda::Stream>(gpu.stream);
  if (cuda::capture_number(stream) != 0)
    return Error{.code = ErrorCode::kUnsupported, .message = "a graph is being captured on its stream"};
  TTAP_ASSIGN(void* scratch, cuda::StreamScratch::of_process().of(gpu.device, stream));
  return Launch{stream, scratch};
}

Status check_device(const OnGpu& gpu) {
  if (!cuda::available())
    return Error{.code = ErrorCode::kUnsupported,
                 .message = "it is in the memory of a GPU, and CUDA cannot be used: " + cuda::unavailable_reason(),
                 .hint = "record a copy in the memory of the CPU"};
  if (gpu.device < 0 || gpu.device >= cuda::device_count())
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = fmt::format("there is no GPU number {}: there are {}", gpu.device, cuda::device_count())};
  return {};
}

cuda::FingerprintJob job_of(const TensorView& tensor, Level level, const OnGpu& gpu,
                            const cuda::PendingResult& pending) {
  return {.view = tensor,
          .rows = {.count = gpu.rows, .is_64_bit = gpu.rows_are_64_bit},
          .result = pending.result,
          .sequence = pending.sequence,
          .is_sketched = keeps_sketch(level)};
}

Error cannot_record(const NameEntry& entry, const Error& why) {
  return {.code = why.code,
          .message = fmt::format("'{}' cannot be recorded: {}", entry.name, why.message),
          .hint = why.hint};
}

}  // namespace

// The pool is large, and every place of it that is in use stands for a record on its way to the disk: waiting for one
// is waiting for the disk.
Result<cuda::PendingResult> Recorder::Impl::place_for_result(int device, cuda::Stream stream) {
  auto& pool = cuda::ResultPool::of_process();
  StagingRing::Watch watch;
  while (true) {
    const cuda::PendingResult pending = pool.take(device, stream);
    if (pending) return pending;
    if (when_full_ == WhenFull::kDrop || !alive())
      return Error{.code = ErrorCode::kNoSpace, .message = "no room for another fingerprint on its way from a GPU"};
    if (pool.outstanding() == 0)
      return Error{.code = ErrorCode::kUnsupported, .message = "no pinned memory could be allocated"};
    (void)ring_->is_given_up(watch);
    std::this_thread::sleep_for(kLookForResult);
  }
}

Status Recorder::Impl::fingerprint_on_gpu(StagedTensor& staged, const TensorView& tensor, const OnGpu& gpu) {
  const auto launch = [&]() -> Status {
    TTAP_TRY(check_device(gpu));
    const cuda::OnDevice on(gpu.device);
    const cuda::WhileCapturing allocating;
    TTAP_ASSIGN(const Launch to, launch_on(gpu));
    TTAP_ASSIGN(const cuda::PendingResult pending, place_for_result(gpu.device, to.stream));
    const cuda::FingerprintJob job = job_of(tensor, staged.level, gpu, pending);
    Status launched = cuda::launch_fingerprints({&job, 1}, to.scratch, to.stream);
    if (!launched.ok()) {
      cuda::ResultPool::of_process().abandon(pending);
      return launched;
    }
    staged.awaited = true;
    staged.later = pending;
    return {};
  };
  Status launched = launch();
  return launched.ok() ? Status{} : Status(cannot_record(*staged.name, launched.error()));
}

Result<cuda::DeviceStaging*> Recorder::Impl::device_staging() {
  const std::lock_guard lock(device_mutex_);
  if (device_staging_ == nullptr) {
    const SignalsBlocked blocked;
    TTAP_ASSIGN(device_staging_,
                cuda::DeviceStaging::create({.device_bytes = device_staging_bytes_, .pinned_bytes = staging_bytes_}));
  }
  return device_staging_.get();
}

Status Recorder::Impl::stage_bytes_of_gpu(StagedTensor& staged, NameEntry& entry, const Event* event,
                                          const TensorView& tensor, const Place& place, Numbering number) {
  const WhichPass which = event == nullptr ? std::nullopt : std::optional(event->pass);
  const auto failed = [&](const Error& why) { return unsupported(which, cannot_record(entry, why)); };
  const OnGpu& gpu = *place.gpu;
  if (Status sound = check_device(gpu); !sound.ok()) return failed(sound.error());
  const cuda::OnDevice on(gpu.device);
  const cuda::WhileCapturing allocating;
  const auto launch = launch_on(gpu);
  if (!launch.ok()) return failed(launch.error());
  const auto staging = device_staging();
  if (!staging.ok()) return failed(staging.error());

  // From here on in turn, so that records and snapshots are in the same order.
  const cuda::DeviceStaging::Turn turn(**staging);
  if (!alive()) return {};
  if (Status ready = (*staging)->prepare(gpu.device); !ready.ok()) return failed(ready.error());
  if (when_full_ == WhenFull::kDrop && !(*staging)->has_room_for(tensor, gpu.device))
    return refused(Refusal::kFull, staged, entry, event);
  const auto pending = place_for_result(gpu.device, launch->stream);
  if (!pending.ok()) {
    if (pending.error().code == ErrorCode::kNoSpace) return refused(Refusal::kFull, staged, entry, event);
    return failed(pending.error());
  }
  const size_t dims = tensor.shape.size_bytes();
  const auto [record, refusal] = reserve_in_pass(
      body_bytes(sizeof(StagedTensor),
                 {dims, dims, place.role.size(), place.path.size(), place.device.size(), place.group.size()}),
      wait_policy(), which, number);
  if (record == nullptr) {
    cuda::ResultPool::of_process().give_back(*pending);
    return refused(refusal, staged, entry, event);
  }
  BodyWriter body(record, sizeof(StagedTensor));
  fill_texts(staged, body, tensor, place);
  staged.awaited = true;
  staged.bytes = *staging;
  cuda::FingerprintJob job = job_of(tensor, staged.level, gpu, *pending);
  const bool in_one = staged.byte_count <= (*staging)->largest_part();
  Status taken = in_one ? (*staging)->take(job, gpu.device, launch->scratch, launch->stream)
                        : cuda::launch_fingerprints({&job, 1}, launch->scratch, launch->stream);
  if (taken.ok())
    staged.later = *pending;
  else
    cuda::ResultPool::of_process().abandon(*pending);
  new (record->body()) StagedTensor(staged);
  // Before its parts: where streams cannot wait for room, this thread does, and the writer must be at work on them.
  ring_->publish(record, !in_one);
  if (!in_one) {
    const Status in_parts = (*staging)->take_in_parts(tensor, gpu.device, launch->scratch, launch->stream);
    if (taken.ok()) taken = in_parts;
  }
  // The writer counts it when it gets there.
  return taken.ok() ? Status{} : Status(cannot_record(entry, taken.error()));
}

}  // namespace ttap
