#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/runtime/runtime.h"

// A runtime made of ordinary memory and threads, linked in place of CUDA's: a stream is a thread that does what was put
// on it in order and at its own pace, so that what is not ordered does get out of order. Device memory is malloc's,
// and is overwritten when it is freed.
namespace ttap::cuda::host {

inline constexpr int kDevices = 64;  // plenty, since one that has failed stays so

// Work of the model on a stream: `bytes` of `value` into `memory`.
void fill(void* memory, uint8_t value, size_t bytes, Stream stream);
// The stream stands still until the value is 1.
void hold(Stream stream, uint64_t* until_one);

// From now on nothing on the device is done any more, and everything fails.
void fail(int device);
// Copies from this many on are refused, though the devices are well; −1: none.
void refuse_copies_after(int64_t count);
// Whether wait_until() and store() work.
void let_streams_wait(bool can);
// As if a graph were captured on the stream; 0: no longer.
void set_captured(Stream stream, uint64_t number);

uint64_t launches();      // of fingerprint kernels
uint64_t device_bytes();  // allocated now
uint64_t pinned_bytes();
uint64_t synchronizing_calls();  // made by the calling thread

}  // namespace ttap::cuda::host
