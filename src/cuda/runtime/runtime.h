#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "ttap/api.h"
#include "ttap/result.h"

struct CUstream_st;
struct CUevent_st;

// What TensorTap asks of CUDA's runtime, and nothing else in the code asks it. Plain C++: who includes this needs no
// header of CUDA. A build without CUDA links no_cuda.cpp in place of runtime.cpp and kernels/; tests of the host side
// link a runtime that is made of ordinary memory.
namespace ttap::cuda {

using Stream = CUstream_st*;  // cudaStream_t
using EventHandle = CUevent_st*;

// Whether there is a driver and a device. Asked once; makes no context.
TTAP_API bool available();
// Why there is none, for people: "built without CUDA", "no NVIDIA driver", …
TTAP_API std::string unavailable_reason();
TTAP_API int device_count();
int multiprocessors(int device);
TTAP_API uint64_t memory_of(int device);  // all its bytes, in use or not; 0 where that is not known
TTAP_API int current_device();

// The device becomes the calling thread's for as long as this lives. The model's thread gets its own back.
class TTAP_API OnDevice {
 public:
  explicit OnDevice(int device);
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_;
};

// Lets the calling thread allocate while some stream of the process is captured, which capture forbids by default.
class TTAP_API WhileCapturing {
 public:
  WhileCapturing();
  ~WhileCapturing();
  WhileCapturing(const WhileCapturing&) = delete;
  WhileCapturing& operator=(const WhileCapturing&) = delete;

 private:
  int before_;
};

// ---- memory ---- (memory.h has it with owners)

// Of the current device; not from PyTorch's allocator, whose figures stay those of the model.
Result<void*> allocate_on_device(size_t bytes);
void free_on_device(void* memory);
// Pinned, and at the same address for the host and every device.
Result<void*> allocate_pinned(size_t bytes);
void free_pinned(void* memory);

// In stream order; any two of host (pinned) and device memory.
Status copy(void* to, const void* from, size_t bytes, Stream stream);
TTAP_API Status set_to_zero(void* memory, size_t bytes, Stream stream);

// ---- order ----

// Of the current device. Does not wait for the legacy default stream, and is of the highest priority: work of ours that
// lets a waiting stream go on must not stand behind that stream in a queue of the hardware.
Result<Stream> make_stream();
void destroy_stream(Stream stream);
// Of a stream of the current device that is not captured: unique in the process for ever, unlike its handle.
uint64_t stream_number(Stream stream);
Status synchronize(Stream stream);
TTAP_API Result<EventHandle> make_event();  // of the current device, without timing; synchronize() on it sleeps
TTAP_API void destroy_event(EventHandle event);
TTAP_API Status record(EventHandle event, Stream stream);
TTAP_API Status wait(Stream stream, EventHandle event);
Status synchronize(EventHandle event);
enum class Progress : uint8_t { kDone, kUnderWay, kFailed };
Progress query(EventHandle event);
// Of all that was put on the stream of the current device. While the stream may be captured it is under way: asking
// CUDA would end the capture.
Progress query(Stream stream);

// The stream goes on when `*value`, in pinned memory, is at least `wanted`: whoever stores it lets it go on. Both are
// below 2^63, since the device looks at the sign of their difference. kUnsupported where the driver cannot.
Status wait_until(Stream stream, const uint64_t* value, uint64_t wanted);
Status store(Stream stream, uint64_t* value, uint64_t what);

// An error that the device will not recover from (an assertion or a bad access in somebody's kernel), or nothing.
Status health(int device);

// ---- capture of graphs ----

// Of a stream: the number of the capture it takes part in, unique in the process, or 0. A capture that has failed and
// was not ended yet counts.
TTAP_API uint64_t capture_number(Stream stream);
// The graph being captured on `stream` keeps `object`: `release` is called, on a thread of the driver's that must not
// call CUDA, when the graph and all that was made of it are gone.
Status keep_with_graph(Stream stream, void* object, void (*release)(void*));

}  // namespace ttap::cuda
