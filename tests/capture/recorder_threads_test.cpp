// The recorder among threads, forks and signals.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <thread>

#include "capture/recording.h"
#include "scratch.h"

namespace ttap {
namespace {

TEST(RecorderThreads, SeveralThreadsCaptureAtOnce) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path(), .staging_bytes = 256 << 10});
  recorder->begin_pass();
  constexpr int kThreads = 4;
  constexpr int kEach = 300;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        // Every 50th tensor is larger than the ring's largest record, so it arrives in pieces.
        const size_t size = i % 50 == 0 ? 60'000 : 8;
        std::vector<float> values(size, static_cast<float>(t * 1000 + i));
        const std::vector<int64_t> shape = {static_cast<int64_t>(size)};
        recorder->capture("thread" + std::to_string(t), {values.data(), DType::kF32, shape, {}});
      }
    });
  for (auto& thread : threads) thread.join();
  ASSERT_TRUE(recorder->flush().ok());
  ASSERT_TRUE(recorder->close().ok());
  const Pass pass = open_pass(*recorder, 0);
  EXPECT_EQ(pass.tensor_count(), static_cast<size_t>(kThreads * kEach));
  for (int t = 0; t < kThreads; ++t)
    for (int i = 0; i < kEach; ++i) {
      const auto values = values_of(pass, {.name = "thread" + std::to_string(t), .call = static_cast<uint32_t>(i + 1)});
      ASSERT_EQ(values.size(), i % 50 == 0 ? 60'000u : 8u);
      ASSERT_EQ(values.back(), static_cast<float>(t * 1000 + i));
    }
}

TEST(RecorderThreads, AForkedChildRecordsNothingAndHarmsNothing) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path()});
  recorder->begin_pass();
  recorder->capture("parent", view_of(eight(0)));
  const pid_t child = ::fork();
  if (child == 0) {
    recorder->capture("child", view_of(eight(1)));
    recorder->end_pass();
    const bool fine = recorder->flush().ok() && recorder->close().ok();
    recorder.reset();
    ::_exit(fine ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  recorder->capture("parent", view_of(eight(2)));
  ASSERT_TRUE(recorder->close().ok());
  const Pass pass = open_pass(*recorder, 0);
  EXPECT_EQ(pass.tensor_count(), 2u);
  EXPECT_FALSE(pass.find({.name = "child"}));
}

TEST(RecorderThreads, AChildThatOutlivesItDoesNotHoldItsFile) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path()});
  recorder->begin_pass();
  ASSERT_TRUE(recorder->flush().ok());
  const auto file = recorder->rank_directory() / "pass00000.ttap.incomplete";
  const pid_t child = ::fork();
  if (child == 0) {
    // Whether this process still has the segment or the directory open.
    bool holds = false;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code ignored;
      const auto target = std::filesystem::read_symlink(entry.path(), ignored);
      holds = holds || target == file || target == recorder->rank_directory();
    }
    ::_exit(holds ? 1 : 0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(Pass::open(file)->info().being_written) << "the parent still holds its lock";
}

TEST(RecorderThreads, ClosingWhileOthersCaptureLosesNothingThatWasAdmitted) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path(), .staging_bytes = 64 << 10});
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      const auto values = eight(0);
      for (int i = 0; i < 3000; ++i) recorder->capture("x", view_of(values));
    });
  ASSERT_TRUE(recorder->close().ok());
  for (auto& thread : threads) thread.join();
  uint64_t on_disk = 0;
  const auto run = Run::open(scratch.path());
  ASSERT_TRUE(run.ok());
  for (const PassFile& file : run->ranks[0].passes) on_disk += Pass::open(file.path)->tensor_count();
  EXPECT_EQ(on_disk, recorder->report().tensors);
}

TEST(RecorderThreads, ClosingEndsThePassThatALateCaptureBegan) {
  for (int round = 0; round < 30; ++round) {
    const ScratchDirectory scratch;
    auto recorder = make({.directory = scratch.path(), .staging_bytes = 64 << 10});
    std::thread other([&] {
      for (int i = 0; i < 200; ++i) {
        recorder->capture("x", view_of(eight(0)));
        if (i % 3 == 0) recorder->end_pass();
        if (i % 50 == 0) (void)recorder->flush();
      }
    });
    ASSERT_TRUE(recorder->close().ok());
    other.join();
    for (const auto& entry : std::filesystem::directory_iterator(recorder->rank_directory()))
      ASSERT_NE(entry.path().extension(), ".incomplete") << "in round " << round;
  }
}

TEST(RecorderThreads, LargeCapturesAndPassesFromOtherThreadsDoNotBlockEachOther) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path(), .staging_bytes = 64 << 10, .deduplicate = true});
  const std::vector<float> large(20'000, 1.f);
  const std::vector<int64_t> shape = {20'000};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 150; ++i) recorder->capture("large", {large.data(), DType::kF32, shape, {}});
    });
  for (int i = 0; i < 300; ++i) recorder->begin_pass();
  for (auto& thread : threads) thread.join();
  ASSERT_TRUE(recorder->close().ok());
  EXPECT_EQ(recorder->report().tensors, 300u);
}

TEST(RecorderThreads, ThreadsThatStartTogetherShareOnePass) {
  for (int round = 0; round < 50; ++round) {
    const ScratchDirectory scratch;
    auto recorder = make({.directory = scratch.path()});
    std::vector<std::thread> threads;
    for (int t = 0; t < 6; ++t) threads.emplace_back([&] { recorder->capture("x", view_of(eight(0))); });
    for (auto& thread : threads) thread.join();
    ASSERT_TRUE(recorder->close().ok());
    ASSERT_EQ(recorder->report().passes, 1u) << "in round " << round;
  }
}

TEST(RecorderThreads, ASourceMaySpeakWhileOthersCapture) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path(), .staging_bytes = 256 << 10});
  recorder->begin_pass();
  constexpr uint32_t kEach = 500;
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&, t] {
      for (uint32_t i = 0; i < kEach; ++i) {
        const Event event = recorder->begin_event(
            {.name = "x", .level = t == 0 ? std::optional(Level::kFull) : std::nullopt, .again = t == 0});
        recorder->capture(event, view_of(eight(0)), {.role = t == 0 ? "recompute" : "out"});
      }
    });
  for (uint32_t i = 0; i < 50; ++i) {
    EXPECT_TRUE(recorder->add_alias("x", "alias" + std::to_string(i)).ok());
    EXPECT_TRUE(recorder->set_source_json("{}").ok());
    EXPECT_FALSE(recorder->count_unsupported("x", "it is sparse").ok());
    (void)recorder->report();
  }
  for (auto& thread : threads) thread.join();
  recorder->capture("x", view_of(eight(1)));
  ASSERT_TRUE(recorder->close().ok());
  const Pass pass = open_pass(*recorder, 0);
  EXPECT_EQ(pass.event_count(), 2 * kEach + 1);
  EXPECT_EQ(pass.tensor_count(), recorder->report().tensors);
  EXPECT_GE(pass.tensor_count(), 2 * kEach + 51);
  EXPECT_EQ(values_of(pass, {.name = "alias49", .call = kEach + 1}), eight(1));
  EXPECT_TRUE(pass.find({.name = "x", .call = kEach, .role = "recompute"}));
  EXPECT_EQ(pass.info().drops, DropCounts{.unsupported = 50});
}

TEST(RecorderThreads, ALargeTensorIsNotOvertakenForEver) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path(), .staging_bytes = 1 << 20});
  std::atomic<bool> done = false;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      const std::vector<float> values(4000);
      const std::vector<int64_t> shape = {4000};
      while (!done) recorder->capture("small", {values.data(), DType::kF32, shape, {}});
    });
  const std::vector<float> values(110'000);
  const std::vector<int64_t> shape = {110'000};  // 440 kB: whole, not in pieces
  for (int i = 0; i < 20; ++i) recorder->capture("large", {values.data(), DType::kF32, shape, {}});
  done = true;
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(recorder->close().ok());
}

TEST(RecorderThreads, ItsThreadsTakeNoSignals) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path()});
  const unsigned helpers = std::clamp(std::thread::hardware_concurrency(), 1u, 4u) - 1;
  ASSERT_TRUE(recorder->flush().ok());  // the writer has run, and so has its name
  const auto text_of = [](const std::filesystem::path& path) {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  unsigned threads = 0;
  while (threads < 1 + helpers) {  // a helper gives itself its name as soon as it runs; without one the test hangs
    threads = 0;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      if (!text_of(task.path() / "comm").starts_with("ttap-")) continue;
      ++threads;
      const std::string status = text_of(task.path() / "status");
      const auto blocked = std::stoull(status.substr(status.find("SigBlk:") + 7), nullptr, 16);
      EXPECT_NE(blocked & (1u << (SIGTERM - 1)), 0u);
    }
  }
  EXPECT_EQ(threads, 1 + helpers);
}

}  // namespace
}  // namespace ttap
