// The recorder and tensors in the memory of a GPU, on a runtime of threads: what is ordered by streams is, what is not
// gets out of order.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "capture/graph_pass.h"
#include "cuda/kernels/launch.h"
#include "cuda/result_pool.h"
#include "gpu_recording.h"
#include "sample_tensors.h"
#include "unmixed.h"

namespace ttap::cuda {
namespace {

constexpr uint64_t kTiny = 64 << 10;

std::vector<std::byte> filled(size_t bytes, uint8_t value) { return std::vector(bytes, std::byte{value}); }

TEST(GpuRecorder, KeepsEveryDtypeAndLayoutAsTheCpuDoes) {
  const ScratchDirectory scratch;
  const TestStream stream;
  const auto samples = test::sample_tensors();
  auto recorder = recorder_in(scratch);
  for (const auto& sample : samples) recorder->capture(sample.name, sample.view(), stream.place());
  Place only_fingerprint = stream.place();
  only_fingerprint.role = "in";
  only_fingerprint.at_most = Level::kFingerprint;
  for (const auto& sample : samples) recorder->capture(sample.name, sample.view(), only_fingerprint);
  ASSERT_TRUE(recorder->close().ok());
  const Pass pass = pass_of(*recorder);
  for (const auto& sample : samples) {
    const auto index = pass.find({.name = sample.name});
    ASSERT_TRUE(index) << sample.name;
    EXPECT_EQ(bytes_of(pass, {.name = sample.name}), test::logical_bytes(sample.view())) << sample.name;
    const Fingerprint expected = fingerprint(sample.view());
    const TensorRecord kept = pass.tensor(*index);
    EXPECT_EQ(kept.fingerprint.hash, expected.hash) << sample.name;
    EXPECT_EQ(kept.fingerprint.stats.nan, expected.stats.nan) << sample.name;
    EXPECT_EQ(kept.device, "cuda:0");
    const auto second = pass.find({.name = sample.name, .call = 2, .role = "in"});
    ASSERT_TRUE(second) << sample.name;
    EXPECT_EQ(pass.tensor(*second).fingerprint.hash, expected.hash) << sample.name;
    EXPECT_FALSE(pass.tensor(*second).has_bytes);
  }
}

TEST(GpuRecorder, TakesWhatTheStreamHadMadeAndNothingThatCameAfter) {
  const ScratchDirectory scratch;
  const TestStream stream;
  const TestTensor tensor(5000);
  auto recorder = recorder_in(scratch);
  uint64_t go = 0;
  host::hold(stream, &go);  // all is enqueued before anything is done
  const uint64_t calls_before = host::synchronizing_calls();
  for (uint8_t i = 0; i < 50; ++i) {
    tensor.fill(i, stream);
    Place place = stream.place();
    place.at_most = i % 5 == 0 ? Level::kFingerprint : Level::kFull;
    recorder->capture("x", tensor.view(), place);
    tensor.fill(0xEE, stream);  // in place, right after
  }
  EXPECT_EQ(host::synchronizing_calls(), calls_before) << "the model's thread waited for the device";
  std::atomic_ref(go).store(1);
  ASSERT_TRUE(recorder->close().ok());
  const Pass pass = pass_of(*recorder);
  for (uint8_t i = 0; i < 50; ++i) {
    const auto expected = filled(5000, i);
    const auto index = pass.find({.name = "x", .call = i + 1u});
    ASSERT_TRUE(index);
    EXPECT_EQ(pass.tensor(*index).fingerprint.hash,
              fingerprint({expected.data(), DType::kU8, pass.tensor(*index).shape, {}}).hash);
    if (i % 5 == 0) continue;
    EXPECT_EQ(bytes_of(pass, {.name = "x", .call = i + 1u}), expected);
  }
}

TEST(GpuRecorder, ValuesOfAQuantizedTensorAreFingerprintsOnly) {
  const ScratchDirectory scratch;
  const TestStream stream;
  const TestTensor tensor(5000);
  auto recorder = recorder_in(scratch);
  tensor.fill(7, stream);
  Place place = stream.place();
  place.group = R"({"format": {}, "parts": ["payload"]})";
  recorder->capture("x", tensor.view(), place);
  ASSERT_TRUE(recorder->close().ok());
  const Pass pass = pass_of(*recorder);
  ASSERT_EQ(pass.tensor_count(), 1u);
  const TensorRecord record = pass.tensor(0);
  EXPECT_EQ(record.group, place.group);
  EXPECT_FALSE(record.has_bytes);
  const auto expected = filled(5000, 7);
  EXPECT_EQ(record.fingerprint.hash, fingerprint({expected.data(), DType::kU8, record.shape, {}}).hash);
}

TEST(GpuRecorder, BytesThatAnEarlierPassHasAreNotWrittenAgain) {
  const ScratchDirectory scratch;
  const TestStream stream;
  const TestTensor tensor(50000);
  auto recorder = recorder_in(scratch);
  tensor.fill(9, stream);
  Place place = stream.place();
  place.stable = true;
  for (int pass = 0; pass < 2; ++pass) {
    recorder->begin_pass();
    recorder->capture("x", tensor.view(), place);
    recorder->end_pass();
    ASSERT_TRUE(recorder->flush().ok());
  }
  ASSERT_TRUE(recorder->close().ok());
  const auto second = recorder->rank_directory() / "pass00001.ttap";
  EXPECT_LT(std::filesystem::file_size(second), 50000u);
  const auto pass = Pass::open(second);
  ASSERT_TRUE(pass.ok());
  EXPECT_EQ(bytes_of(*pass, {.name = "x"}), filled(50000, 9));
}

TEST(GpuRecorder, MetaTouchesNoDataAndLaunchesNothing) {
  const ScratchDirectory scratch;
  const TestStream stream;
  auto recorder = recorder_in(scratch, {.level = Level::kMeta});
  const std::vector<int64_t> shape = {3, 4};
  const uint64_t before = host::launches();
  recorder->capture("x", {nullptr, DType::kBF16, shape, {}}, stream.place());
  ASSERT_TRUE(recorder->close().ok());
  EXPECT_EQ(host::launches(), before);
  EXPECT_EQ(pass_of(*recorder).tensor(0).level, Level::kMeta);
}

TEST(GpuRecorder, FingerprintsNeedNoStagingMemoryOfTheDevice) {
  const ScratchDirectory scratch;
  const TestStream stream;
  const TestTensor tensor(1 << 20);
  auto recorder = recorder_in(scratch, {.level = Level::kFingerprint});
  tensor.fill(1, stream);
  recorder->capture("x", tensor.view(), stream.place());
  const uint64_t before = host::device_bytes();
  for (int i = 0; i < 20; ++i) recorder->capture("x", tensor.view(), stream.place());
  EXPECT_EQ(host::device_bytes(), before);
  ASSERT_TRUE(recorder->close().ok());
  EXPECT_EQ(recorder->report().tensors, 21u);
}

// Every size from far below a part of the rings to far above them.
class GpuRecorderRings : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override { host::let_streams_wait(GetParam()); }
  void TearDown() override { host::let_streams_wait(true); }
};
INSTANTIATE_TEST_SUITE_P(StreamsWait, GpuRecorderRings, ::testing::Bool(),
                         [](const auto& with) { return with.param ? "OnTheDevice" : "NotSoTheHostDoes"; });

TEST_P(GpuRecorderRings, TinyRingsHoldTheStreamUpAndLoseNothing) {
  const ScratchDirectory scratch;
  const TestStream stream;
  auto recorder = recorder_in(scratch, {.staging_bytes = kTiny, .device_staging_bytes = kTiny, .deduplicate = false});
  std::vector<std::unique_ptr<TestTensor>> tensors;
  std::mt19937 random(1);
  std::vector<size_t> sizes;
  for (int i = 0; i < 300; ++i) sizes.push_back(random() % 3 == 0 ? random() % 200'000 + 1 : random() % 3000 + 1);
  const TestTensor tensor(200'001);
  for (size_t i = 0; i < sizes.size(); ++i) {
    const std::vector<int64_t> shape = {static_cast<int64_t>(sizes[i])};
    tensor.fill(static_cast<uint8_t>(i), stream);
    recorder->capture("x", {tensor.data(), DType::kU8, shape, {}}, stream.place());
    tensor.fill(0xEE, stream);
  }
  ASSERT_TRUE(recorder->close().ok());
  const Pass pass = pass_of(*recorder);
  for (size_t i = 0; i < sizes.size(); ++i)
    ASSERT_EQ(bytes_of(pass, {.name = "x", .call = static_cast<uint32_t>(i + 1)}),
              filled(sizes[i], static_cast<uint8_t>(i)))
        << i;
  EXPECT_EQ(recorder->report().drops, DropCounts{});
}

TEST_P(GpuRecorderRings, StridedTensorsLargerThanBothRingsComeInPieces) {
  const ScratchDirectory scratch;
  const TestStream stream;
  auto recorder = recorder_in(scratch, {.staging_bytes = kTiny, .device_staging_bytes = kTiny});
  std::vector<uint16_t> values(600 * 500);
  std::iota(values.begin(), values.end(), uint16_t{0});
  const std::vector<int64_t> shape = {500, 600}, strides = {1, 500};
  const TensorView transposed{values.data(), DType::kU16, shape, strides};
  recorder->capture("x", transposed, stream.place());
  recorder->capture("x", transposed, stream.place());
  ASSERT_TRUE(recorder->close().ok());
  const Pass pass = pass_of(*recorder);
  EXPECT_EQ(bytes_of(pass, {.name = "x"}), test::logical_bytes(transposed));
  EXPECT_EQ(pass.tensor(0).fingerprint.hash, fingerprint(transposed).hash);
  EXPECT_EQ(recorder->report().deduplicated, 1u);
}

TEST_P(GpuRecorderRings, FingerprintsBehindASnapshotThatWaitsForRoomComeToo) {
  const ScratchDirectory scratch;
  const TestStream stream;
  const TestTensor tensor(15'000);
  auto recorder = recorder_in(scratch, {.staging_bytes = kTiny, .device_staging_bytes = kTiny});
  // The same bytes again and again: nothing of them has to be written, so the writer has no other reason to free them.
  tensor.fill(1, stream);
  for (int i = 0; i < 200; ++i) {
    Place place = stream.place();
    if (i % 3 == 2) place.at_most = Level::kFingerprint;
    recorder->capture("x", tensor.view(), place);
  }
  ASSERT_TRUE(recorder->close().ok());
  EXPECT_EQ(recorder->report().tensors, 200u);
  EXPECT_EQ(recorder->report().drops, DropCounts{});
}

TEST(GpuRecorder, WhatFindsNoRoomIsDroppedAndCountedWhenAskedTo) {
  const ScratchDirectory scratch;
  const TestStream stream;
  const TestTensor small(10'000), large(200'000);
  auto recorder =
      recorder_in(scratch, {.staging_bytes = kTiny, .device_staging_bytes = kTiny, .when_full = WhenFull::kDrop});
  uint64_t go = 0;
  host::hold(stream, &go);
  int kept = 0;
  for (int i = 0; i < 20; ++i) kept += recorder->try_capture("small", small.view(), stream.place()).ok() ? 1 : 0;
  const Status too_large = recorder->try_capture("large", large.view(), stream.place());
  ASSERT_FALSE(too_large.ok());
  EXPECT_EQ(too_large.error().code, ErrorCode::kNoSpace);
  EXPECT_EQ(kept, 6);  // of 10,000 bytes in 64 KiB
  std::atomic_ref(go).store(1);
  ASSERT_TRUE(recorder->flush().ok());
  EXPECT_TRUE(recorder->try_capture("small", small.view(), stream.place()).ok());
  ASSERT_TRUE(recorder->close().ok());
  EXPECT_EQ(recorder->report().tensors, 7u);
  EXPECT_EQ(recorder->report().drops.staging_full, 15u);
  // Calls that were dropped have their numbers.
  EXPECT_TRUE(pass_of(*recorder).find({.name = "small", .call = 21}));
}

TEST(GpuRecorder, OnlyTheRowsThatAreAliveWhenTheStreamGetsThere) {
  const ScratchDirectory scratch;
  const TestStream stream;
  std::vector<float> values(16 * 4096);
  std::iota(values.begin(), values.end(), 0.f);
  const std::vector<int64_t> shape = {16, 4096};
  const TensorView view{values.data(), DType::kF32, shape, {}};
  int64_t rows = 99;
  int32_t few_rows = 3;
  for (const uint64_t bytes : {uint64_t{1} << 22, kTiny}) {  // in one part; in several
    auto recorder = recorder_in(scratch, {.staging_bytes = bytes, .device_staging_bytes = bytes, .deduplicate = false});
    uint64_t go = 0;
    host::hold(stream, &go);
    std::vector<Place> places(4, stream.place());
    places[0].gpu->rows = places[1].gpu->rows = &rows;
    places[1].at_most = Level::kFingerprint;
    places[2].gpu->rows = &few_rows;
    places[2].gpu->rows_are_64_bit = false;
    for (const Place& place : places) recorder->capture("x", view, place);
    rows = 5;
    std::atomic_ref(go).store(1);
    ASSERT_TRUE(recorder->flush().ok());
    rows = -1;
    recorder->capture("none", view, places[0]);
    ASSERT_TRUE(recorder->close().ok());
    const Pass pass = pass_of(*recorder);
    const int64_t expected[] = {5, 5, 3, 16, 0};
    for (size_t i = 0; i < 5; ++i) {
      const TensorRecord record = pass.tensor(i);
      const std::vector<int64_t> live = {expected[i], 4096};
      EXPECT_TRUE(std::ranges::equal(record.shape, live)) << i << " of " << bytes;
      const TensorView alive{values.data(), DType::kF32, live, {}};
      EXPECT_EQ(record.fingerprint.hash, fingerprint(alive).hash) << i << " of " << bytes;
      EXPECT_EQ(record.byte_count, byte_count(alive));
      if (i != 1) {
        const auto read = pass.read(i);
        ASSERT_TRUE(read.ok()) << read.error().describe();
        EXPECT_EQ(test::logical_bytes(*read), test::logical_bytes(alive)) << i << " of " << bytes;
      }
    }
    std::filesystem::remove_all(recorder->rank_directory());
  }
}

TEST(GpuRecorder, AStreamThatIsCapturedIsLeftAlone) {
  const ScratchDirectory scratch;
  const TestStream stream;
  const TestTensor tensor(100);
  auto recorder = recorder_in(scratch);
  host::set_captured(stream, 7);
  for (const Level level : {Level::kFull, Level::kFingerprint}) {
    Place place = stream.place();
    place.at_most = level;
    const Status status = recorder->try_capture("x", tensor.view(), place);
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.error().message.find("a graph is being captured"), std::string::npos);
  }
  host::set_captured(stream, 0);
  ASSERT_TRUE(recorder->close().ok());
  EXPECT_EQ(recorder->report().drops.unsupported, 2u);
}

TEST(GpuRecorder, ADeviceThatIsNotThereIsAnError) {
  const ScratchDirectory scratch;
  const TestTensor tensor(100);
  auto recorder = recorder_in(scratch);
  const Status status = recorder->try_capture("x", tensor.view(), {.gpu = OnGpu{.device = host::kDevices}});
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("no GPU number 64"), std::string::npos);
  ASSERT_TRUE(recorder->close().ok());
  EXPECT_EQ(recorder->report().drops.unsupported, 1u);
}

TEST(GpuRecorder, AFingerprintOfTheSourceIsAwaitedOrGivenBack) {
  const ScratchDirectory scratch;
  auto& pool = ResultPool::of_process();
  const uint64_t before = pool.outstanding();
  const TestTensor tensor(8);
  const auto later_with = [&](uint64_t hash) {
    const PendingResult pending = pool.take(0, nullptr);
    EXPECT_TRUE(pending);
    const HashPair digests = test::digests_of({hash, 0}, 8);
    pending.result->totals.digest_a = digests.a;
    pending.result->totals.digest_b = digests.b;
    pending.result->bytes = 8;
    return pending;
  };
  const auto arrives = [](const PendingResult& pending) {
    std::atomic_ref(pending.result->sequence).store(pending.sequence, std::memory_order_release);
  };
  auto recorder = recorder_in(scratch, {.filter = {{"x"}}});
  const Event ended = recorder->begin_event({.name = "x", .pass = recorder->open_pass()});
  recorder->close_pass(ended.pass);

  std::vector<TensorOnGpu> pending;
  for (int i = 0; i < 4; ++i) pending.push_back({.later = later_with(static_cast<uint64_t>(i))});
  const Place place{.at_most = Level::kFingerprint};
  const auto with = [&](int i) {
    Place with_later = place;
    with_later.on_gpu = &pending[static_cast<size_t>(i)];
    return with_later;
  };
  recorder->capture("x", tensor.view(), with(0));
  recorder->capture("not wanted", tensor.view(), with(1));
  recorder->capture(ended, tensor.view(), with(2));
  Place meta = with(3);
  meta.at_most = Level::kMeta;
  recorder->capture("x", tensor.view(), meta);
  std::thread([&] {
    for (const TensorOnGpu& each : pending) arrives(each.later);
  }).join();
  ASSERT_TRUE(recorder->close().ok());
  const Pass pass = pass_of(*recorder, 1);
  EXPECT_EQ(pass.tensor(0).fingerprint.hash.low, 0u);
  EXPECT_EQ(recorder->report().drops.late, 1u);
  // What nobody waited for has come back, too.
  EXPECT_EQ(pool.outstanding(), before);
}

TEST(GpuRecorder, ADeviceThatFailsLosesItsTensorsAndHoldsUpNothing) {
  const ScratchDirectory scratch;
  static int failing = host::kDevices;
  --failing;  // one that has not failed yet, when tests are repeated
  const TestStream stream(failing), other(1);
  const TestTensor tensor(20'000, failing), healthy(20'000, 1);
  auto recorder = recorder_in(scratch, {.staging_bytes = kTiny, .device_staging_bytes = kTiny, .deduplicate = false});
  tensor.fill(1, stream);
  healthy.fill(2, other);
  recorder->capture("before", tensor.view(), stream.place());
  ASSERT_TRUE(recorder->flush().ok());
  uint64_t never = 0;
  host::hold(stream, &never);
  for (int i = 0; i < 10; ++i) recorder->capture("lost", tensor.view(), stream.place());
  std::thread breaks([&] {
    host::fail(failing);
    std::atomic_ref(never).store(1);
  });
  for (int i = 0; i < 10; ++i) recorder->capture("healthy", healthy.view(), other.place());
  breaks.join();
  const Status refused = recorder->try_capture("after", tensor.view(), stream.place());
  EXPECT_FALSE(refused.ok());
  EXPECT_FALSE(recorder->close().ok());
  const Report report = recorder->report();
  EXPECT_EQ(report.tensors, 11u);
  EXPECT_EQ(report.drops.unsupported, 11u);
  const Pass pass = pass_of(*recorder);
  for (uint32_t call = 1; call <= 10; ++call)
    EXPECT_EQ(bytes_of(pass, {.name = "healthy", .call = call}), filled(20'000, 2));
  EXPECT_EQ(bytes_of(pass, {.name = "before"}), filled(20'000, 1));
}

TEST(GpuRecorder, ACopyThatIsRefusedLosesBytesAndNoStreamWaitsForEver) {
  const ScratchDirectory scratch;
  const TestStream stream;
  const TestTensor tensor(10'000);
  auto recorder = recorder_in(scratch, {.staging_bytes = kTiny, .device_staging_bytes = kTiny, .deduplicate = false});
  recorder->capture("x", tensor.view(), stream.place());
  ASSERT_TRUE(recorder->flush().ok());
  host::refuse_copies_after(3);
  for (int i = 0; i < 50; ++i) recorder->capture("x", tensor.view(), stream.place());
  ASSERT_TRUE(synchronize(stream).ok());  // the model goes on
  EXPECT_FALSE(recorder->close().ok());
  host::refuse_copies_after(-1);
  const Report report = recorder->report();
  EXPECT_GE(report.drops.unsupported, 40u);
  EXPECT_EQ(report.drops.total(), report.drops.unsupported);
  EXPECT_NE(report.first_error.find("refused"), std::string::npos);
  const Pass pass = pass_of(*recorder);
  for (size_t i = 0; i < pass.tensor_count(); ++i) EXPECT_TRUE(pass.tensor(i).has_fingerprint);
}

TEST(GpuRecorder, BytesBeyondTheQuotaAreLeftOutAndHoldUpNothing) {
  const ScratchDirectory scratch;
  const TestStream stream;
  const TestTensor small(10'000), large(100'000);
  auto recorder = recorder_in(
      scratch, {.staging_bytes = kTiny, .device_staging_bytes = kTiny, .quota_bytes = 50'000, .deduplicate = false});
  for (int i = 0; i < 10; ++i) {
    recorder->capture("large", large.view(), stream.place());
    recorder->capture("small", small.view(), stream.place());
  }
  ASSERT_TRUE(recorder->close().ok());
  EXPECT_GT(recorder->report().tensors, 10u);  // fingerprints go on for a while
  EXPECT_GE(recorder->report().drops.quota, 16u);
  const Pass pass = pass_of(*recorder);
  EXPECT_TRUE(pass.tensor(0).has_fingerprint);
  EXPECT_FALSE(pass.tensor(0).has_bytes);
  EXPECT_TRUE(pass.tensor(1).has_bytes);
}

TEST(GpuRecorder, ClosingWaitsForAllThatIsOnItsWayAndFreesTheMemory) {
  const ScratchDirectory scratch;
  const TestStream stream, second(1);
  const TestTensor tensor(30'000), other(30'000, 1);
  const uint64_t device_bytes = host::device_bytes();
  auto recorder = recorder_in(scratch, {.staging_bytes = 1 << 20, .device_staging_bytes = 1 << 20});
  uint64_t go = 0;
  host::hold(stream, &go);
  for (uint8_t i = 0; i < 10; ++i) {
    tensor.fill(i, stream);
    recorder->capture("x", tensor.view(), stream.place());
    other.fill(i, second);
    recorder->capture("y", other.view(), second.place());
  }
  EXPECT_GE(host::device_bytes(), device_bytes + (2 << 20));
  std::thread releases([&] { std::atomic_ref(go).store(1); });
  ASSERT_TRUE(recorder->close().ok());
  releases.join();
  EXPECT_LT(host::device_bytes(), device_bytes + (1 << 20) + 8 * kScratchBytes);
  const Pass pass = pass_of(*recorder);
  for (uint8_t i = 0; i < 10; ++i)
    for (const char* name : {"x", "y"}) EXPECT_EQ(bytes_of(pass, {.name = name, .call = i + 1u}), filled(30'000, i));
}

TEST(GpuRecorder, TwentyThousandSequencesOfFourThreadsOnThreeStreamsOfTwoDevices) {
  const ScratchDirectory scratch;
  constexpr int kEach = 5000;
  auto recorder = recorder_in(scratch, {.staging_bytes = 256 << 10, .device_staging_bytes = kTiny});
  // Each thread has a cache of memory that it uses again in stream order, as PyTorch's allocator does.
  const TestStream one, other, of_another_device(1);
  const auto work = [&](const char* name, int device, const TestStream& stream, unsigned seed) {
    std::vector<std::unique_ptr<TestTensor>> cache;
    for (const size_t bytes : {100, 4000, 17'000, 70'000}) cache.push_back(std::make_unique<TestTensor>(bytes, device));
    std::mt19937 random(seed);
    for (int i = 0; i < kEach; ++i) {
      const unsigned size = random() % 64;
      const TestTensor& tensor = *cache[size == 0 ? 3 : size < 4 ? 2 : size < 24 ? 1 : 0];
      tensor.fill(static_cast<uint8_t>(i), stream);
      Place place = stream.place();
      if (random() % 4 == 0) place.at_most = Level::kFingerprint;
      recorder->capture(name, tensor.view(), place);
      if (random() % 2 == 0) tensor.fill(0xEE, stream);
    }
    ASSERT_TRUE(synchronize(stream).ok());
  };
  std::vector<std::thread> threads;
  threads.emplace_back([&] { work("first", 0, one, 1); });
  threads.emplace_back([&] { work("second", 0, other, 2); });
  threads.emplace_back([&] { work("third", 0, other, 3); });  // two threads on one stream
  threads.emplace_back([&] { work("fourth", 1, of_another_device, 4); });
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(recorder->close().ok());
  EXPECT_EQ(recorder->report().drops, DropCounts{});
  const Pass pass = pass_of(*recorder);
  ASSERT_EQ(pass.tensor_count(), 4u * kEach);
  for (size_t i = 0; i < pass.tensor_count(); ++i) {
    const TensorRecord record = pass.tensor(i);
    const auto expected = filled(record.byte_count, static_cast<uint8_t>(record.call - 1));
    ASSERT_EQ(record.fingerprint.hash, fingerprint({expected.data(), DType::kU8, record.shape, {}}).hash)
        << record.name << " " << record.call;
    if (!record.has_bytes) continue;
    const auto view = pass.read(i);
    ASSERT_TRUE(view.ok());
    ASSERT_EQ(std::memcmp(view->data, expected.data(), expected.size()), 0) << record.name << " " << record.call;
  }
}

}  // namespace
}  // namespace ttap::cuda
