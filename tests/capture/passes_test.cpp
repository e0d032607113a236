// Several passes open at once: each is a file of its own, whatever goes on beside it.
#include <gtest/gtest.h>

#include <fstream>
#include <stdexcept>
#include <thread>

#include "capture/recording.h"
#include "scratch.h"

namespace ttap {
namespace {

TEST(Passes, InterleavedEachCountsItsOwnCallsAndEvents) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path()});
  const uint32_t a = recorder->open_pass();
  const uint32_t b = recorder->open_pass();
  ASSERT_NE(a, b);
  for (int i = 0; i < 3; ++i) {
    const Event outer = recorder->begin_event({.name = "block", .pass = a});
    const Event inner = recorder->begin_event({.name = "mm", .parent = outer, .pass = a});
    recorder->capture(inner, view_of(eight(static_cast<float>(i))));
    if (i == 1) recorder->capture(recorder->begin_event({.name = "mm", .pass = b}), view_of(eight(100)));
    recorder->capture("mm", view_of(eight(200)));  // of the current pass, which begins by itself
  }
  recorder->close_pass(b);
  recorder->capture(recorder->begin_event({.name = "mm", .pass = a}), view_of(eight(3)));
  recorder->close_pass(a);
  recorder->capture("mm", view_of(eight(200)));
  ASSERT_TRUE(recorder->close().ok());
  EXPECT_EQ(recorder->report().passes, 3u);

  const Pass first = open_pass(*recorder, static_cast<int>(a));
  ASSERT_EQ(first.tensor_count(), 4u);
  ASSERT_EQ(first.event_count(), 7u);
  for (uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(values_of(first, {.name = "mm", .call = i + 1}), eight(static_cast<float>(i)));
    EXPECT_EQ(first.tensor(i).event, i < 3 ? 2 * i + 1 : 6u);
    if (i < 3) {
      EXPECT_EQ(first.event(2 * i + 1).parent, 2 * i);
    }
  }
  const Pass second = open_pass(*recorder, static_cast<int>(b));
  ASSERT_EQ(second.tensor_count(), 1u);
  EXPECT_EQ(values_of(second, {.name = "mm"}), eight(100));
  EXPECT_EQ(second.tensor(0).event, 0u);
  const Pass current = open_pass(*recorder, 2);
  ASSERT_EQ(current.tensor_count(), 4u);
  EXPECT_EQ(current.tensor(3).call, 4u);
}

TEST(Passes, EachThreadRecordsItsOwn) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path(), .staging_bytes = 256 << 10});
  constexpr int kThreads = 3;
  constexpr int kSteps = 6;
  constexpr uint32_t kCalls = 40;
  std::vector<std::vector<uint32_t>> numbers(kThreads);
  const auto value = [](int thread, int step, uint32_t call) {
    return static_cast<float>(thread * 10'000 + step * 1000) + static_cast<float>(call);
  };
  // Every 20th tensor is larger than the ring's largest record, so it arrives in pieces.
  const auto size = [](uint32_t call) { return call % 20 == 0 ? size_t{60'000} : size_t{8}; };
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int step = 0; step < kSteps; ++step) {
        const uint32_t pass = recorder->open_pass();
        numbers[static_cast<size_t>(t)].push_back(pass);
        const Event outer = recorder->begin_event({.name = "model", .kind = "module", .pass = pass});
        for (uint32_t call = 1; call <= kCalls; ++call) {
          const Event event = recorder->begin_event({.name = "layer", .parent = outer, .pass = pass});
          EXPECT_EQ(event.call, call);
          EXPECT_EQ(event.number, call);
          const std::vector<float> values(size(call), value(t, step, call));
          const std::vector<int64_t> shape = {static_cast<int64_t>(values.size())};
          recorder->capture(event, {values.data(), DType::kF32, shape, {}});
        }
        recorder->close_pass(pass, step % 2 == 0 ? Ending::kComplete : Ending::kAborted);
      }
    });
  for (auto& thread : threads) thread.join();
  ASSERT_TRUE(recorder->close().ok());
  EXPECT_EQ(recorder->report().passes, static_cast<uint64_t>(kThreads * kSteps));
  EXPECT_EQ(recorder->report().drops, DropCounts{});
  for (int t = 0; t < kThreads; ++t)
    for (int step = 0; step < kSteps; ++step) {
      const Pass pass =
          open_pass(*recorder, static_cast<int>(numbers[static_cast<size_t>(t)][static_cast<size_t>(step)]));
      EXPECT_EQ(pass.info().ending, step % 2 == 0 ? Ending::kComplete : Ending::kAborted);
      ASSERT_EQ(pass.tensor_count(), kCalls);
      ASSERT_EQ(pass.event_count(), kCalls + 1);
      for (uint32_t call = 1; call <= kCalls; ++call) {
        const auto values = values_of(pass, {.name = "layer", .call = call});
        ASSERT_EQ(values.size(), size(call));
        ASSERT_EQ(values.back(), value(t, step, call));
        ASSERT_EQ(pass.tensor(call - 1).event, call);
        ASSERT_EQ(pass.event(call).parent, 0u);
      }
    }
}

TEST(Passes, WhatComesAfterItsPassHasEndedIsLate) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path()});
  const uint32_t ended = recorder->open_pass();
  recorder->begin_pass();
  const Event event = recorder->begin_event({.name = "x", .pass = ended});
  recorder->close_pass(ended);
  EXPECT_FALSE(recorder->begin_event({.name = "x", .pass = ended}).wanted());
  const Status status = recorder->try_capture(event, view_of(eight(1)));
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("pass 0 is not open"), std::string::npos);
  recorder->capture(event, view_of(eight(1)));  // never raises
  recorder->capture("x", view_of(eight(2)));
  ASSERT_TRUE(recorder->close().ok());

  const Pass pass = open_pass(*recorder, static_cast<int>(ended));
  EXPECT_EQ(pass.tensor_count(), 0u);
  EXPECT_EQ(pass.event_count(), 1u);
  const Pass current = open_pass(*recorder, 1);
  EXPECT_EQ(current.tensor_count(), 1u);
  EXPECT_EQ(current.tensor(0).call, 1u);
  EXPECT_EQ(current.info().drops, DropCounts{});
  EXPECT_EQ(recorder->report().drops, DropCounts{.late = 3});
  EXPECT_NE(recorder->report().describe().find("3 that came after their pass had ended"), std::string::npos);
}

TEST(Passes, ALateTensorInPiecesIsLateToo) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path(), .staging_bytes = 64 << 10});
  const uint32_t ended = recorder->open_pass();
  const Event event = recorder->begin_event({.name = "x", .pass = ended});
  recorder->close_pass(ended);
  const std::vector<float> large(100'000);
  const std::vector<int64_t> shape = {100'000};
  EXPECT_FALSE(recorder->try_capture(event, {large.data(), DType::kF32, shape, {}}).ok());
  ASSERT_TRUE(recorder->close().ok());
  EXPECT_EQ(recorder->report().drops, DropCounts{.late = 1});
  EXPECT_EQ(recorder->report().passes, 1u);
}

TEST(Passes, LateRaisesWhenStrict) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path(), .strict = true});
  recorder->begin_pass();
  const Event event = recorder->begin_event({.name = "x"});
  recorder->end_pass();
  EXPECT_THROW(recorder->capture(event, view_of(eight(1))), std::runtime_error);
}

TEST(Passes, ASkippedPassTakesANumberAndMakesNoFile) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path()});
  EXPECT_EQ(recorder->begin_pass(), 0u);
  EXPECT_EQ(recorder->skip_pass(), 1u);
  recorder->capture("x", view_of(eight(1)));  // pass 0 is still the current one
  EXPECT_FALSE(recorder->begin_event({.name = "x", .pass = 1}).wanted());
  EXPECT_EQ(recorder->open_pass(), 2u);
  EXPECT_EQ(recorder->begin_pass(), 3u);
  ASSERT_TRUE(recorder->close().ok());
  EXPECT_EQ(open_pass(*recorder, 0).tensor_count(), 1u);
  EXPECT_FALSE(std::filesystem::exists(recorder->rank_directory() / "pass00001.ttap"));
  EXPECT_TRUE(std::filesystem::exists(recorder->rank_directory() / "pass00002.ttap"));
  EXPECT_EQ(recorder->report().passes, 3u);
}

TEST(Passes, BeginningAndEndingTheCurrentOneLeavesTheOthersOpen) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path()});
  const uint32_t beside = recorder->open_pass();
  const uint32_t first = recorder->begin_pass();
  recorder->begin_pass();
  EXPECT_FALSE(recorder->begin_event({.name = "x", .pass = first}).wanted());
  recorder->end_pass();
  const Event event = recorder->begin_event({.name = "x", .pass = beside});
  EXPECT_TRUE(event.wanted());
  recorder->capture(event, view_of(eight(1)));
  recorder->close_pass(beside);
  recorder->close_pass(beside, Ending::kAborted);  // not open any more: nothing happens
  recorder->close_pass(77);
  ASSERT_TRUE(recorder->close().ok());
  EXPECT_EQ(open_pass(*recorder, static_cast<int>(beside)).tensor_count(), 1u);
  EXPECT_EQ(open_pass(*recorder, static_cast<int>(beside)).info().ending, Ending::kComplete);
}

TEST(Passes, TheCurrentOneMayBeClosedByItsNumber) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path()});
  const uint32_t number = recorder->begin_pass();
  recorder->close_pass(number, Ending::kAborted);
  recorder->capture("x", view_of(eight(1)));  // begins another
  ASSERT_TRUE(recorder->close().ok());
  EXPECT_EQ(open_pass(*recorder, 0).info().ending, Ending::kAborted);
  EXPECT_EQ(open_pass(*recorder, 1).tensor_count(), 1u);
}

TEST(Passes, ClosingTheRecorderEndsEveryOpenOneAsToldTo) {
  for (const Ending ending : {Ending::kComplete, Ending::kAborted}) {
    const ScratchDirectory scratch;
    auto recorder = make({.directory = scratch.path()});
    recorder->open_pass();
    recorder->begin_pass();
    recorder->open_pass();
    ASSERT_TRUE(recorder->close(ending).ok());
    for (int number = 0; number < 3; ++number) EXPECT_EQ(open_pass(*recorder, number).info().ending, ending);
  }
}

TEST(Passes, DropsAreCountedInTheirOwn) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path(), .staging_bytes = 64 << 10, .when_full = WhenFull::kDrop});
  const uint32_t a = recorder->open_pass();
  const uint32_t b = recorder->open_pass();
  const std::vector<float> too_large(1 << 20);
  const std::vector<int64_t> shape = {1 << 20};
  const Event in_a = recorder->begin_event({.name = "x", .pass = a});
  const Event in_b = recorder->begin_event({.name = "x", .pass = b});
  recorder->capture(in_a, {too_large.data(), DType::kF32, shape, {}});
  recorder->capture(in_b, {nullptr, DType::kF32, kEight, {}});
  recorder->capture(in_b, {nullptr, DType::kF32, kEight, {}});
  ASSERT_TRUE(recorder->close().ok());
  EXPECT_EQ(open_pass(*recorder, static_cast<int>(a)).info().drops, DropCounts{.staging_full = 1});
  EXPECT_EQ(open_pass(*recorder, static_cast<int>(b)).info().drops, DropCounts{.unsupported = 2});
  EXPECT_EQ(recorder->report().drops, (DropCounts{.staging_full = 1, .unsupported = 2}));
}

TEST(Passes, FlushPutsAllOfThemIntoTheirFiles) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path()});
  for (int i = 0; i < 3; ++i) {
    const uint32_t pass = recorder->open_pass();
    recorder->capture(recorder->begin_event({.name = "x", .pass = pass}), view_of(eight(1)));
  }
  ASSERT_TRUE(recorder->flush().ok());
  for (const char* name : {"pass00000", "pass00001", "pass00002"}) {
    const auto pass = Pass::open(recorder->rank_directory() / (std::string(name) + ".ttap.incomplete"));
    ASSERT_TRUE(pass.ok()) << name;
    EXPECT_EQ(values_of(*pass, {.name = "x"}), eight(1)) << "the same bytes, but every file has its own";
  }
}

TEST(Passes, ManyOpenAndCloseWhileTheRecorderCloses) {
  for (int round = 0; round < 20; ++round) {
    const ScratchDirectory scratch;
    auto recorder = make({.directory = scratch.path(), .staging_bytes = 64 << 10});
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t)
      threads.emplace_back([&] {
        const std::vector<float> large(10'000);
        const std::vector<int64_t> shape = {10'000};
        for (int i = 0; i < 50; ++i) {
          const uint32_t pass = recorder->open_pass();
          const Event event = recorder->begin_event({.name = "x", .pass = pass});
          recorder->capture(event, {large.data(), DType::kF32, shape, {}});
          if (i % 2 == 0) recorder->close_pass(pass);
        }
      });
    std::this_thread::sleep_for(std::chrono::microseconds(200 * round));
    ASSERT_TRUE(recorder->close().ok());
    for (auto& thread : threads) thread.join();
    uint64_t tensors = 0;
    const auto run = Run::open(scratch.path());
    ASSERT_TRUE(run.ok());
    for (const PassFile& file : run->ranks[0].passes) {
      ASSERT_EQ(file.path.extension(), ".ttap") << "in round " << round;
      tensors += Pass::open(file.path)->tensor_count();
    }
    ASSERT_EQ(tensors, recorder->report().tensors);
  }
}

}  // namespace
}  // namespace ttap
