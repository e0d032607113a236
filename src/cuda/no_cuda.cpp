#include "cuda/kernels/launch.h"
#include "cuda/kernels/quant/quant_decode.h"
#include "cuda/runtime/runtime.h"

// In place of runtime.cpp and the kernels in a build without CUDA. available() is false, so none of the rest is called
// but by mistake.
namespace ttap::cuda {
namespace {

Error none() {
  return {.code = ErrorCode::kUnsupported,
          .message = "this build of TensorTap has no CUDA",
          .hint = "build it where nvcc is found"};
}

}  // namespace

bool available() { return false; }
std::string unavailable_reason() { return "built without CUDA"; }
int device_count() { return 0; }
int multiprocessors(int) { return 0; }
uint64_t memory_of(int) { return 0; }
int current_device() { return 0; }

OnDevice::OnDevice(int) : before_(-1) {}
OnDevice::~OnDevice() = default;
WhileCapturing::WhileCapturing() : before_(0) {}
WhileCapturing::~WhileCapturing() = default;

Result<void*> allocate_on_device(size_t) { return none(); }
void free_on_device(void*) {}
Result<void*> allocate_pinned(size_t) { return none(); }
void free_pinned(void*) {}
Status copy(void*, const void*, size_t, Stream) { return none(); }
Status set_to_zero(void*, size_t, Stream) { return none(); }

Result<Stream> make_stream() { return none(); }
void destroy_stream(Stream) {}
uint64_t stream_number(Stream) { return 0; }
Status synchronize(Stream) { return none(); }
Result<EventHandle> make_event() { return none(); }
void destroy_event(EventHandle) {}
Status record(EventHandle, Stream) { return none(); }
Status wait(Stream, EventHandle) { return none(); }
Status synchronize(EventHandle) { return none(); }
Progress query(EventHandle) { return Progress::kFailed; }
Progress query(Stream) { return Progress::kFailed; }
Status wait_until(Stream, const uint64_t*, uint64_t) { return none(); }
Status store(Stream, uint64_t*, uint64_t) { return none(); }
Status health(int) { return none(); }

uint64_t capture_number(Stream) { return 0; }
Status keep_with_graph(Stream, void*, void (*)(void*)) { return none(); }

Status launch_fingerprints(std::span<const FingerprintJob>, void*, Stream) { return none(); }
Status launch_compare(const CompareJob&, Stream) { return none(); }
Status launch_head(const HeadJob&, Stream) { return none(); }
Status launch_publish(const PublishJob&, Stream) { return none(); }
Status launch_quant_decode(const QuantJob&, Stream) { return none(); }

}  // namespace ttap::cuda
