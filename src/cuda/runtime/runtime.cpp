#include "cuda/runtime/runtime.h"

#include <cuda.h>
#include <cuda_runtime.h>
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "cuda/runtime/backoff.h"

// Over CUDA's runtime, linked statically: it looks for the driver when it is first asked, so a program that loads this
// library needs neither driver nor device. Functions of the driver are looked up by name for the same reason.
namespace ttap::cuda {
namespace {

Status status_of(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return {};
  (void)cudaGetLastError();  // it must not turn up in the model's own check
  return Error{.code = error == cudaErrorMemoryAllocation ? ErrorCode::kNoSpace : ErrorCode::kUnsupported,
               .message = fmt::format("CUDA: {}: {} ({})", what, cudaGetErrorString(error), cudaGetErrorName(error))};
}

struct Look {
  int devices = 0;
  std::string reason;
};

const Look& look() {
  static const Look found = [] {
    Look look;
    // The driver may start threads. Signals are the program's: those threads take none.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const cudaError_t error = cudaGetDeviceCount(&look.devices);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (error == cudaErrorInsufficientDriver) {
      int driver = 0;
      (void)cudaDriverGetVersion(&driver);
      look.reason = driver == 0
                        ? "no NVIDIA driver"
                        : fmt::format("the NVIDIA driver is for CUDA {}.{}, this build needs {}.{}", driver / 1000,
                                      driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    } else if (error != cudaSuccess) {
      look.reason = cudaGetErrorString(error);
    } else if (look.devices == 0) {
      look.reason = "no GPU";
    }
    (void)cudaGetLastError();
    if (error != cudaSuccess) look.devices = 0;
    return look;
  }();
  return found;
}

template <class Function>
Function driver_function(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
#if CUDART_VERSION >= 12050
  const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result);
#else
  const cudaError_t error = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result);
#endif
  if (error != cudaSuccess) {
    (void)cudaGetLastError();
    return nullptr;
  }
  return result == cudaDriverEntryPointSuccess ? reinterpret_cast<Function>(found) : nullptr;
}

struct CaptureInfo {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long number = 0;
  cudaGraph_t graph = nullptr;
};
cudaError_t capture_info(Stream stream, CaptureInfo& info) {
#if CUDART_VERSION >= 13000
  return cudaStreamGetCaptureInfo(stream, &info.status, &info.number, &info.graph, nullptr, nullptr, nullptr);
#else
  return cudaStreamGetCaptureInfo_v2(stream, &info.status, &info.number, &info.graph, nullptr, nullptr);
#endif
}

Progress progress_of(cudaError_t error) {
  if (error == cudaSuccess) return Progress::kDone;
  (void)cudaGetLastError();
  return error == cudaErrorNotReady ? Progress::kUnderWay : Progress::kFailed;
}

// Whether the program asked CUDA to return from each launch only when it is done.
bool launches_wait() {
  static const bool wait = [] {
    const char* asked = std::getenv("CUDA_LAUNCH_BLOCKING");
    return asked != nullptr && std::atoi(asked) != 0;
  }();
  return wait;
}

Status no_driver_function(const char* name) {
  return Error{.code = ErrorCode::kUnsupported, .message = fmt::format("CUDA: the driver has no {}", name)};
}

}  // namespace

bool available() { return look().devices > 0; }
std::string unavailable_reason() { return look().reason; }
int device_count() { return look().devices; }

int multiprocessors(int device) {
  int count = 0;
  if (cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) != cudaSuccess) {
    (void)cudaGetLastError();
    return 1;
  }
  return count;
}

uint64_t memory_of(int device) {
  constexpr int kKnown = 64;
  static std::atomic<uint64_t> known[kKnown];
  if (device < 0 || device >= kKnown) return 0;
  if (const uint64_t bytes = known[device].load(std::memory_order_relaxed); bytes != 0) return bytes;
  const OnDevice on(device);
  const WhileCapturing asking;
  size_t free_bytes = 0, all_bytes = 0;
  if (cudaMemGetInfo(&free_bytes, &all_bytes) != cudaSuccess) {
    (void)cudaGetLastError();
    return 0;
  }
  known[device].store(all_bytes, std::memory_order_relaxed);
  return all_bytes;
}

int current_device() {
  int device = 0;
  return cudaGetDevice(&device) == cudaSuccess ? device : 0;
}

OnDevice::OnDevice(int device) : before_(-1) {
  int now = -1;
  if (cudaGetDevice(&now) == cudaSuccess && now == device) return;
  before_ = now;
  (void)cudaSetDevice(device);
}

OnDevice::~OnDevice() {
  if (before_ >= 0) (void)cudaSetDevice(before_);
}

WhileCapturing::WhileCapturing() {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  (void)cudaThreadExchangeStreamCaptureMode(&mode);
  before_ = static_cast<int>(mode);
}

WhileCapturing::~WhileCapturing() {
  auto mode = static_cast<cudaStreamCaptureMode>(before_);
  (void)cudaThreadExchangeStreamCaptureMode(&mode);
}

// ---- memory ----

Result<void*> allocate_on_device(size_t bytes) {
  void* memory = nullptr;
  TTAP_TRY(status_of(cudaMalloc(&memory, bytes), "allocating device memory"));
  return memory;
}
void free_on_device(void* memory) { (void)cudaFree(memory); }

Result<void*> allocate_pinned(size_t bytes) {
  void* memory = nullptr;
  TTAP_TRY(status_of(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable | cudaHostAllocMapped), "pinning memory"));
  return memory;
}
void free_pinned(void* memory) { (void)cudaFreeHost(memory); }

Status copy(void* to, const void* from, size_t bytes, Stream stream) {
  return status_of(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "copying");
}
Status set_to_zero(void* memory, size_t bytes, Stream stream) {
  return status_of(cudaMemsetAsync(memory, 0, bytes, stream), "clearing memory");
}

// ---- order ----

Result<Stream> make_stream() {
  Stream stream = nullptr;
  int lowest = 0, highest = 0;
  TTAP_TRY(status_of(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "asking for priorities"));
  TTAP_TRY(status_of(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, highest), "making a stream"));
  return stream;
}
void destroy_stream(Stream stream) { (void)cudaStreamDestroy(stream); }
uint64_t stream_number(Stream stream) {
  unsigned long long number = 0;
#if CUDART_VERSION >= 12000
  if (cudaStreamGetId(stream, &number) == cudaSuccess) return number;
  (void)cudaGetLastError();
#endif
  return reinterpret_cast<uintptr_t>(stream);
}
Status synchronize(Stream stream) { return status_of(cudaStreamSynchronize(stream), "waiting for a stream"); }

Result<EventHandle> make_event() {
  EventHandle event = nullptr;
  // Not cudaEventBlockingSync: of such events some fifty can be under way, and then recording one waits for another.
  TTAP_TRY(status_of(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event"));
  return event;
}
void destroy_event(EventHandle event) { (void)cudaEventDestroy(event); }
Status record(EventHandle event, Stream stream) {
  return status_of(cudaEventRecord(event, stream), "recording an event");
}
Status wait(Stream stream, EventHandle event) {
  return status_of(cudaStreamWaitEvent(stream, event, 0), "waiting for an event");
}
Status synchronize(EventHandle event) {
  // cudaEventSynchronize() would spin.
  for (Backoff backoff;; backoff.wait()) {
    const cudaError_t error = cudaEventQuery(event);
    if (error != cudaErrorNotReady) return status_of(error, "waiting for an event");
    (void)cudaGetLastError();
  }
}

Progress query(EventHandle event) { return progress_of(cudaEventQuery(event)); }
Progress query(Stream stream) {
  CaptureInfo info;
  if (capture_info(stream, info) != cudaSuccess || info.status != cudaStreamCaptureStatusNone) {
    (void)cudaGetLastError();
    return Progress::kUnderWay;
  }
  return progress_of(cudaStreamQuery(stream));
}

Status wait_until(Stream stream, const uint64_t* value, uint64_t wanted) {
  // The launch behind the wait would not return, and keep the one who is to end it out of CUDA.
  if (launches_wait()) return Error{.code = ErrorCode::kUnsupported, .message = "CUDA: launches wait for their end"};
  static const auto function =
      driver_function<CUresult (*)(CUstream, CUdeviceptr, cuuint64_t, unsigned)>("cuStreamWaitValue64");
  if (function == nullptr) return no_driver_function("cuStreamWaitValue64");
  const CUresult result = function(stream, reinterpret_cast<CUdeviceptr>(value), wanted, CU_STREAM_WAIT_VALUE_GEQ);
  if (result == CUDA_SUCCESS) return {};
  return Error{
      .code = ErrorCode::kUnsupported,
      .message = fmt::format("CUDA: a stream cannot wait for memory here (error {})", static_cast<int>(result))};
}

Status store(Stream stream, uint64_t* value, uint64_t what) {
  static const auto function =
      driver_function<CUresult (*)(CUstream, CUdeviceptr, cuuint64_t, unsigned)>("cuStreamWriteValue64");
  if (function == nullptr) return no_driver_function("cuStreamWriteValue64");
  const CUresult result = function(stream, reinterpret_cast<CUdeviceptr>(value), what, CU_STREAM_WRITE_VALUE_DEFAULT);
  if (result == CUDA_SUCCESS) return {};
  return Error{.code = ErrorCode::kUnsupported,
               .message = fmt::format("CUDA: a stream cannot write memory here (error {})", static_cast<int>(result))};
}

Status health(int device) {
  const OnDevice on(device);
  const WhileCapturing asking;
  // A sticky error is returned by every call; this one does nothing else. Unlike a query of a stream it may be made
  // while one is captured.
  size_t free_bytes = 0, total_bytes = 0;
  return status_of(cudaMemGetInfo(&free_bytes, &total_bytes), "the device");
}

// ---- capture of graphs ----

uint64_t capture_number(Stream stream) {
  CaptureInfo info;
  if (capture_info(stream, info) != cudaSuccess) {
    (void)cudaGetLastError();
    return 0;
  }
  return info.status == cudaStreamCaptureStatusNone ? 0 : std::max<uint64_t>(info.number, 1);
}

Status keep_with_graph(Stream stream, void* object, void (*release)(void*)) {
  CaptureInfo info;
  TTAP_TRY(status_of(capture_info(stream, info), "looking at a capture"));
  if (info.status != cudaStreamCaptureStatusActive)
    return Error{.code = ErrorCode::kInvalidArgument, .message = "CUDA: no graph is captured on this stream"};
  cudaUserObject_t kept = nullptr;
  TTAP_TRY(status_of(cudaUserObjectCreate(&kept, object, release, 1, cudaUserObjectNoDestructorSync),
                     "making an object of a graph"));
  return status_of(cudaGraphRetainUserObject(info.graph, kept, 1, cudaGraphUserObjectMove),
                   "giving an object to a graph");
}

}  // namespace ttap::cuda
