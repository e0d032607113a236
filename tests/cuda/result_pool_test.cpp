// What the pool of fingerprints does while a stream does not bring one, on a runtime of threads.
#include "cuda/result_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "cuda/kernels/launch.h"
#include "cuda/stream_scratch.h"
#include "gpu_recording.h"

namespace ttap::cuda {
namespace {

constexpr ResultPool::Intervals kShort{.at_device = std::chrono::milliseconds(5),
                                       .at_stream = std::chrono::milliseconds(20)};

// As a collective or a checkpoint does, for many times the interval at which the pool looks.
TEST(ResultPool, AStreamThatStandsStillIsWaitedFor) {
  auto& pool = ResultPool::of_process();
  const TestStream stream;
  const TestTensor tensor(1000);
  const auto scratch = StreamScratch::of_process().of(0, stream);
  ASSERT_TRUE(scratch.ok());
  uint64_t go = 0;
  host::hold(stream, &go);
  const PendingResult pending = pool.take(0, stream);
  const FingerprintJob job{.view = tensor.view(), .result = pending.result, .sequence = pending.sequence};
  ASSERT_TRUE(launch_fingerprints({&job, 1}, *scratch, stream).ok());
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    std::atomic_ref(go).store(1);
  });
  const auto result = pool.wait(pending, kShort);
  later.join();
  ASSERT_TRUE(result);
  EXPECT_EQ(result->bytes, byte_count(tensor.view()));
}

TEST(ResultPool, WhatAnIdleStreamHasNotBroughtIsLost) {
  auto& pool = ResultPool::of_process();
  const TestStream stream;
  EXPECT_FALSE(pool.wait(pool.take(0, stream), kShort));
}

TEST(ResultPool, AStreamThatIsCapturedIsNotAsked) {
  auto& pool = ResultPool::of_process();
  const TestStream stream;
  host::set_captured(stream, 7);
  const PendingResult pending = pool.take(0, stream);
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    std::atomic_ref(pending.result->sequence).store(pending.sequence, std::memory_order_release);
  });
  EXPECT_TRUE(pool.wait(pending, kShort));
  later.join();
  host::set_captured(stream, 0);
}

}  // namespace
}  // namespace ttap::cuda
