#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "cuda/runtime/memory.h"
#include "host_runtime.h"
#include "scratch.h"
#include "ttap/recorder.h"
#include "ttap/run.h"

// Recordings of tensors in the memory of a device that is made of threads.
namespace ttap::cuda {

// A stream of a device for as long as it lives.
class TestStream {
 public:
  explicit TestStream(int device = 0) : device_(device) {
    const OnDevice on(device);
    stream_ = make_stream().value();
  }
  ~TestStream() { destroy_stream(stream_); }
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;
  operator Stream() const { return stream_; }
  Place place() const { return {.device = "cuda:0", .gpu = OnGpu{.device = device_, .stream = stream_}}; }

 private:
  int device_;
  Stream stream_;
};

// A vector of bytes in device memory. What it holds is written in stream order.
class TestTensor {
 public:
  explicit TestTensor(size_t bytes, int device = 0)
      : memory_(device_memory(device, bytes).value()), shape_{static_cast<int64_t>(bytes)} {}
  TensorView view() const { return {memory_.get(), DType::kU8, shape_, {}}; }
  void fill(uint8_t value, Stream stream) const { host::fill(memory_.get(), value, size(), stream); }
  size_t size() const { return static_cast<size_t>(shape_[0]); }
  std::byte* data() const { return memory_.get(); }

 private:
  DeviceMemory memory_;
  std::vector<int64_t> shape_;
};

inline std::unique_ptr<Recorder> recorder_in(const ScratchDirectory& scratch, RecorderOptions options = {}) {
  options.directory = scratch.path();
  options.rank = 0;
  auto recorder = Recorder::create(options);
  EXPECT_TRUE(recorder.ok()) << recorder.error().describe();
  return std::move(recorder).value();
}

inline Pass pass_of(const Recorder& recorder, int number = 0) {
  char name[32];
  std::snprintf(name, sizeof name, "pass%05d.ttap", number);
  auto pass = Pass::open(recorder.rank_directory() / name);
  EXPECT_TRUE(pass.ok()) << pass.error().describe();
  return std::move(pass).value();
}

// The bytes of a tensor; empty when it is not there.
inline std::vector<std::byte> bytes_of(const Pass& pass, const Key& key) {
  const auto index = pass.find(key);
  if (!index) return {};
  const auto view = pass.read(*index);
  if (!view.ok()) return {};
  const auto* data = static_cast<const std::byte*>(view->data);
  return {data, data + byte_count(*view)};
}

}  // namespace ttap::cuda
