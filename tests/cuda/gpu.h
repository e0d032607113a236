#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <vector>

#include "cuda/kernels/launch.h"
#include "cuda/runtime/memory.h"
#include "cuda/runtime/runtime.h"
#include "kernel_cases.h"

// A GPU for a test: a stream with its scratch, and memory that is there until the test ends.
namespace ttap::test {

class Gpu {
 public:
  Gpu() {
    stream_ = cuda::make_stream().value();
    scratch_ = allocate(cuda::kScratchBytes);
    EXPECT_TRUE(cuda::set_to_zero(scratch_, cuda::kScratchBytes, stream_).ok());
  }
  ~Gpu() {
    wait();
    cuda::destroy_stream(stream_);
  }
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  cuda::Stream stream() const { return stream_; }
  void* scratch() const { return scratch_; }

  std::byte* allocate(size_t bytes) {
    auto memory = cuda::device_memory(0, std::max<size_t>(bytes, 1));
    EXPECT_TRUE(memory.ok());
    if (!memory.ok()) return nullptr;
    owned_.push_back(std::move(memory.value()));
    return owned_.back().get();
  }
  // At `offset` bytes after a multiple of 256.
  std::byte* upload(std::span<const std::byte> bytes, size_t offset = 0) {
    std::byte* memory = allocate(bytes.size() + offset) + offset;
    EXPECT_EQ(cudaMemcpyAsync(memory, bytes.data(), bytes.size(), cudaMemcpyDefault, stream_), cudaSuccess);
    wait();
    return memory;
  }
  Bytes download(const void* from, size_t bytes) {
    Bytes to(bytes);
    EXPECT_EQ(cudaMemcpyAsync(to.data(), from, bytes, cudaMemcpyDefault, stream_), cudaSuccess);
    wait();
    return to;
  }
  cuda::DeviceResult* results_on_device(size_t count) {
    auto* results = reinterpret_cast<cuda::DeviceResult*>(allocate(count * sizeof(cuda::DeviceResult)));
    EXPECT_TRUE(cuda::set_to_zero(results, count * sizeof(cuda::DeviceResult), stream_).ok());
    return results;
  }
  cuda::DeviceResult read(const cuda::DeviceResult* result) {
    cuda::DeviceResult read;
    const Bytes bytes = download(result, sizeof read);
    std::memcpy(static_cast<void*>(&read), bytes.data(), sizeof read);
    return read;
  }
  void launch(std::span<const cuda::FingerprintJob> jobs) {
    const Status status = cuda::launch_fingerprints(jobs, scratch_, stream_);
    EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
  }
  // Of one view in device memory.
  cuda::DeviceResult fingerprint(const TensorView& view, cuda::Rows rows = {}, void* copy_to = nullptr) {
    cuda::DeviceResult* result = results_on_device(1);
    const cuda::FingerprintJob job{.view = view, .rows = rows, .copy_to = copy_to, .result = result, .sequence = 77};
    launch({&job, 1});
    const cuda::DeviceResult read_back = read(result);
    EXPECT_EQ(read_back.sequence, 77u);
    return read_back;
  }
  // Memory of tensors that are done with.
  void free_all_but_scratch() {
    wait();
    owned_.resize(1);
  }
  void wait() { EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess) << cudaGetErrorString(cudaGetLastError()); }

 private:
  cuda::Stream stream_ = nullptr;
  void* scratch_ = nullptr;
  std::vector<cuda::DeviceMemory> owned_;
};

#define TTAP_NEEDS_GPU() \
  if (!cuda::available()) GTEST_SKIP() << "skipped: no GPU (" << cuda::unavailable_reason() << ")"

}  // namespace ttap::test
