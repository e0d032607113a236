// The end of a call: its texts, what it used and how long it took, from end_event() to the file.
#include <gtest/gtest.h>

#include <thread>

#include "capture/recording.h"
#include "scratch.h"

namespace ttap {
namespace {

TEST(Calls, ComeBackWithTextsUsesAndProducers) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path()});
  const Event relu = recorder->begin_event({.name = "aten::relu"});
  recorder->capture(relu, view_of(eight(-1)), {.role = "in", .path = "/0", .value = 1});
  recorder->capture(relu, view_of(eight(1)), {.value = 2});
  const Use of_relu[] = {{.role = "in", .path = "/0", .tensor = 0, .value = 1},
                         {.role = "out", .tensor = 1, .value = 2}};
  recorder->end_event(relu, {.arguments = "%0", .results = "%1", .uses = of_relu});
  const Event add = recorder->begin_event({.name = "aten::add_.Tensor"});
  const Use of_add[] = {{.role = "in", .path = "/0", .tensor = 1, .value = 2, .written = true},
                        {.role = "in", .path = "/other"},
                        {.role = "after", .path = "/0", .tensor = 1, .value = 3}};
  recorder->end_event(add, {.arguments = "%0, other=%1, alpha=2",
                            .results = "%2",
                            .notes = R"({"hook": {"peak": 7}})",
                            .forward = relu,
                            .uses = of_add});
  recorder->capture(add, view_of(eight(5)), {.role = "after", .path = "/0", .value = 3});  // after its call, by then
  ASSERT_TRUE(recorder->close().ok());

  const Pass pass = open_pass(*recorder, 0);
  EXPECT_EQ(pass.info().drops, DropCounts{});
  const EventRecord first = pass.event(0);
  EXPECT_TRUE(first.returned);
  EXPECT_EQ(first.arguments, "%0");
  EXPECT_EQ(first.results, "%1");
  EXPECT_EQ(first.notes, "");
  EXPECT_EQ(first.forward, kNoEvent);
  ASSERT_EQ(first.use_count, 2u);
  EXPECT_EQ(pass.use(0, 0).record, 0u);
  EXPECT_EQ(pass.use(0, 1).role, "out");
  EXPECT_EQ(pass.use(0, 1).path, "");
  EXPECT_EQ(pass.use(0, 1).record, 1u);
  const EventRecord second = pass.event(1);
  EXPECT_EQ(second.arguments, "%0, other=%1, alpha=2");
  EXPECT_EQ(second.notes, R"({"hook": {"peak": 7}})");
  EXPECT_EQ(second.forward, 0u);
  ASSERT_EQ(second.use_count, 3u);
  const UseRecord written = pass.use(1, 0);
  EXPECT_EQ(written.role, "in");
  EXPECT_EQ(written.path, "/0");
  EXPECT_EQ(written.tensor, 1u);
  EXPECT_EQ(written.record, 1u) << "relu produced it";
  EXPECT_TRUE(written.written);
  const UseRecord unknown = pass.use(1, 1);
  EXPECT_EQ(unknown.path, "/other");
  EXPECT_EQ(unknown.tensor, kNoNumber);
  EXPECT_EQ(unknown.record, kNoNumber);
  EXPECT_FALSE(unknown.written);
  EXPECT_EQ(pass.use(1, 2).record, 2u) << "a record may come after the use";
  EXPECT_EQ(pass.tensor(2).value, 3u);
}

TEST(Calls, LastFromBeginToEnd) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path()});
  const Event module = recorder->begin_event({.name = "layer", .kind = "module"});
  const Event inner = recorder->begin_event({.name = "aten::relu", .parent = module});
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  recorder->end_event(inner, {});
  recorder->end_event(module, {});
  (void)recorder->begin_event({.name = "raised"});
  ASSERT_TRUE(recorder->close().ok());
  const Pass pass = open_pass(*recorder, 0);
  EXPECT_GE(pass.event(1).duration_ns, 3'000'000u);
  EXPECT_GE(pass.event(0).duration_ns, pass.event(1).duration_ns) << "the outer ends last";
  EXPECT_TRUE(pass.event(0).returned);
  EXPECT_EQ(pass.event(0).use_count, 0u);
  EXPECT_FALSE(pass.event(2).returned);
  EXPECT_EQ(pass.event(2).duration_ns, 0u);
}

TEST(Calls, EndOnceAndTheSecondIsCounted) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path()});
  const Event event = recorder->begin_event({.name = "x"});
  recorder->end_event(event, {.arguments = "first"});
  ASSERT_TRUE(recorder->flush().ok());
  recorder->end_event(event, {.arguments = "second"});
  recorder->capture("y", view_of(eight(1)));
  ASSERT_TRUE(recorder->close().ok());
  const Pass pass = open_pass(*recorder, 0);
  EXPECT_EQ(pass.info().problem, "");
  EXPECT_EQ(pass.event(0).arguments, "first");
  EXPECT_EQ(pass.tensor_count(), 1u) << "what comes after is read";
  EXPECT_EQ(pass.info().drops, DropCounts{.events = 1});
}

TEST(Calls, OfEventsThatAreNotRecordedAreNothing) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path(), .filter = std::vector<std::string>{"kept"}});
  recorder->end_event(recorder->begin_event({.name = "rejected"}), {.arguments = "1"});
  recorder->end_event({}, {});
  const Event kept = recorder->begin_event({.name = "kept"});
  recorder->begin_pass();
  recorder->end_event(kept, {});
  ASSERT_TRUE(recorder->close().ok());
  EXPECT_EQ(open_pass(*recorder, 0).event_count(), 1u);
  EXPECT_FALSE(open_pass(*recorder, 0).event(0).returned);
  EXPECT_EQ(recorder->report().drops, DropCounts{.late = 1});
}

TEST(Calls, KnowOnlyAForwardOfTheirOwnPassThatCameBefore) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path()});
  const uint32_t other = recorder->open_pass();
  recorder->begin_pass();
  const Event elsewhere = recorder->begin_event({.name = "elsewhere", .pass = other});
  const Event first = recorder->begin_event({.name = "first"});
  const Event second = recorder->begin_event({.name = "second"});
  const Event third = recorder->begin_event({.name = "third"});
  recorder->end_event(first, {.forward = second});
  recorder->end_event(second, {.forward = elsewhere});
  recorder->end_event(third, {.forward = first});
  ASSERT_TRUE(recorder->close().ok());
  const Pass pass = open_pass(*recorder, 1);
  EXPECT_EQ(pass.info().problem, "");
  EXPECT_EQ(pass.event(0).forward, kNoEvent);
  EXPECT_EQ(pass.event(1).forward, kNoEvent);
  EXPECT_EQ(pass.event(2).forward, 0u);
}

TEST(Calls, TooLargeForTheStagingMemoryAreCountedAsEvents) {
  for (const WhenFull when_full : {WhenFull::kBlock, WhenFull::kDrop}) {
    const ScratchDirectory scratch;
    auto recorder = make({.directory = scratch.path(), .staging_bytes = 64 << 10, .when_full = when_full});
    const Event event = recorder->begin_event({.name = "x"});
    const std::string text(70'000, 'x');
    recorder->end_event(event, {.arguments = text});
    const std::vector<Use> uses(5'000);
    const Event many = recorder->begin_event({.name = "y"});
    recorder->end_event(many, {.uses = uses});
    ASSERT_TRUE(recorder->close().ok());
    const Pass pass = open_pass(*recorder, 0);
    EXPECT_EQ(pass.event_count(), 2u);
    EXPECT_FALSE(pass.event(0).returned);
    EXPECT_FALSE(pass.event(1).returned);
    EXPECT_EQ(pass.info().drops, DropCounts{.events = 2});
  }
}

TEST(Calls, KeepWithinTheQuotaAndAreCountedBeyondIt) {
  constexpr uint64_t kQuota = 256 << 10;
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path(), .quota_bytes = kQuota});
  constexpr uint64_t kEvents = 500;
  std::vector<Event> events;
  for (uint64_t i = 0; i < kEvents; ++i) events.push_back(recorder->begin_event({.name = "x"}));
  for (uint64_t i = 0; i < kEvents; ++i) {
    const std::string text = std::string(1000, 'a') + std::to_string(i);
    const std::string path = "/" + std::to_string(i);
    const Use uses[] = {{.path = path}, {.role = "out", .path = path}};
    recorder->end_event(events[i], {.arguments = text, .results = text, .notes = text, .uses = uses});
  }
  ASSERT_TRUE(recorder->close().ok());
  const Pass pass = open_pass(*recorder, 0);
  EXPECT_EQ(pass.info().problem, "");
  EXPECT_LE(pass.info().file_bytes, kQuota);
  ASSERT_EQ(pass.event_count(), kEvents);
  uint64_t returned = 0;
  for (size_t i = 0; i < kEvents; ++i) returned += pass.event(i).returned ? 1 : 0;
  EXPECT_GT(returned, 50u);
  EXPECT_EQ(returned + pass.info().drops.events, kEvents);
}

TEST(Calls, AnAliasDoesNotTakeTheValueAway) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path()});
  ASSERT_TRUE(recorder->add_alias("embed", "head").ok());
  const Event event = recorder->begin_event({.name = "embed"});
  recorder->capture(event, view_of(eight(1)), {.value = 9});
  const Use use[] = {{.role = "out", .value = 9}};
  recorder->end_event(event, {.uses = use});
  ASSERT_TRUE(recorder->close().ok());
  const Pass pass = open_pass(*recorder, 0);
  ASSERT_EQ(pass.tensor_count(), 2u);
  EXPECT_EQ(pass.tensor(0).value, 9u);
  EXPECT_EQ(pass.tensor(1).value, 0u);
  EXPECT_EQ(pass.use(0, 0).record, 0u);
}

TEST(Calls, ValuesOfTensorsInPiecesAreFoundToo) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path(), .staging_bytes = 256 << 10});
  const std::vector<float> large(100'000, 7.f);
  const std::vector<int64_t> shape = {100'000};
  const Event event = recorder->begin_event({.name = "x"});
  recorder->capture(event, {large.data(), DType::kF32, shape, {}}, {.value = 4});
  const Use use[] = {{.role = "out", .value = 4}};
  recorder->end_event(event, {.uses = use});
  ASSERT_TRUE(recorder->close().ok());
  EXPECT_EQ(open_pass(*recorder, 0).use(0, 0).record, 0u);
}

TEST(Calls, OfManyThreadsAreEachTheirOwn) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path(), .staging_bytes = 64 << 10});
  constexpr int kThreads = 4;
  constexpr int kCalls = 2'000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      const std::string name = "op" + std::to_string(t);
      for (int i = 0; i < kCalls; ++i) {
        const Event event = recorder->begin_event({.name = name});
        const std::string text = name + ":" + std::to_string(event.call);
        const std::vector<Use> uses(static_cast<size_t>(i % 4), Use{.path = text});
        recorder->end_event(event, {.arguments = text, .uses = uses});
      }
    });
  for (auto& thread : threads) thread.join();
  ASSERT_TRUE(recorder->close().ok());
  const Pass pass = open_pass(*recorder, 0);
  EXPECT_EQ(pass.info().problem, "");
  ASSERT_EQ(pass.event_count(), size_t{kThreads} * kCalls);
  for (size_t i = 0; i < pass.event_count(); ++i) {
    const EventRecord event = pass.event(i);
    ASSERT_EQ(event.arguments, std::string(event.name) + ":" + std::to_string(event.call));
    ASSERT_EQ(event.use_count, (event.call - 1) % 4);
    for (size_t use = 0; use < event.use_count; ++use) ASSERT_EQ(pass.use(i, use).path, event.arguments);
  }
}

}  // namespace
}  // namespace ttap
