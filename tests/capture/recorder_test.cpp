#include "ttap/recorder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <stdexcept>

#include "capture/recording.h"
#include "scratch.h"
#include "store/sources/run_layout.h"
#include "ttap/run.h"

namespace ttap {
namespace {

TEST(Recorder, KeepsWhatTheTensorWasWhenItWasCaptured) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path()});
  auto values = eight(1);
  {
    const PassScope pass(*recorder);
    recorder->capture("layer", view_of(values));
    std::ranges::fill(values, -1.f);  // an in-place op right after
    recorder->capture("layer", view_of(values));
  }
  ASSERT_TRUE(recorder->close().ok());
  const Pass pass = open_pass(*recorder, 0);
  EXPECT_EQ(values_of(pass, {.name = "layer"}), eight(1));
  EXPECT_EQ(values_of(pass, {.name = "layer", .call = 2}), std::vector<float>(8, -1.f));
}

TEST(Recorder, CountsCallsAnewInEachPassAndPassesAlways) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path()});
  const auto values = eight(0);
  EXPECT_EQ(recorder->begin_pass(), 0u);
  recorder->capture("x", view_of(values));
  recorder->capture("x", view_of(values));
  EXPECT_EQ(recorder->begin_pass(), 1u);  // ends pass 0; stays empty
  try {
    const PassScope pass(*recorder);
    EXPECT_EQ(pass.number(), 2u);
    recorder->capture("x", view_of(values));
    throw std::runtime_error("the step raised");
  } catch (const std::runtime_error&) {
  }
  recorder->capture("x", view_of(values));  // outside any pass: begins one
  ASSERT_TRUE(recorder->close().ok());

  EXPECT_EQ(open_pass(*recorder, 0).tensor_count(), 2u);
  EXPECT_EQ(open_pass(*recorder, 0).tensor(1).call, 2u);
  EXPECT_EQ(open_pass(*recorder, 1).tensor_count(), 0u);
  EXPECT_EQ(open_pass(*recorder, 1).info().ending, Ending::kComplete);
  EXPECT_EQ(open_pass(*recorder, 2).info().ending, Ending::kAborted);
  EXPECT_EQ(open_pass(*recorder, 2).tensor_count(), 1u);
  EXPECT_EQ(open_pass(*recorder, 2).tensor(0).call, 1u);
  EXPECT_EQ(open_pass(*recorder, 3).tensor_count(), 1u);
}

TEST(Recorder, AppendingCountsOnFromThePassesThatAreThere) {
  const ScratchDirectory scratch;
  const auto values = eight(0);
  for (uint32_t expected : {0u, 1u}) {
    auto recorder = make({.directory = scratch.path(), .append = true});
    EXPECT_EQ(recorder->run_number(), 1u);
    EXPECT_EQ(recorder->begin_pass(), expected);
    recorder->capture("x", view_of(values));
    ASSERT_TRUE(recorder->close().ok());
  }
}

TEST(Recorder, KeepsEventsWithTheirTensors) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path()});
  const auto in = eight(1);
  const auto out = eight(2);
  recorder->begin_pass();
  const Event outer = recorder->begin_event({.name = "block", .kind = "module"});
  const Event inner =
      recorder->begin_event({.name = "block.mm", .kind = "op", .parent = outer, .stack = "model.py:12 forward"});
  recorder->capture(inner, view_of(in), {.role = "in", .path = "/0"});
  recorder->capture(inner, view_of(out));
  const Event again = recorder->begin_event({.name = "block.mm"});
  recorder->capture(again, view_of(out));
  ASSERT_TRUE(recorder->close().ok());

  const Pass pass = open_pass(*recorder, 0);
  ASSERT_EQ(pass.event_count(), 3u);
  EXPECT_EQ(pass.event(1).parent, 0u);
  EXPECT_EQ(pass.event(1).kind, "op");
  EXPECT_EQ(pass.event(1).stack, "model.py:12 forward");
  EXPECT_NE(pass.event(1).thread, 0u);
  EXPECT_EQ(values_of(pass, {.name = "block.mm", .role = "in", .path = "/0"}), in);
  const auto second = pass.find({.name = "block.mm", .call = 2});
  ASSERT_TRUE(second);
  EXPECT_EQ(pass.tensor(*second).event, 2u);
}

TEST(Recorder, FilterAndLevelsDecideByName) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path(),
                        .filter = std::vector<std::string>{R"(\.o_proj$)", "^head", "never"},
                        .level_rules = {{"layers\\.0\\.", Level::kFingerprint}, {"head", Level::kMeta}}});
  const auto values = eight(3);
  for (const char* name : {"layers.0.o_proj", "layers.1.o_proj", "layers.1.q_proj", "head"})
    recorder->capture(name, view_of(values));
  EXPECT_FALSE(recorder->wants("layers.1.q_proj"));
  EXPECT_TRUE(recorder->wants("layers.1.o_proj"));
  EXPECT_FALSE(recorder->begin_event({.name = "layers.1.q_proj"}).wanted());
  ASSERT_TRUE(recorder->close().ok());

  const Pass pass = open_pass(*recorder, 0);
  ASSERT_EQ(pass.tensor_count(), 3u);
  const TensorRecord fingerprinted = pass.tensor(0);
  EXPECT_TRUE(fingerprinted.has_fingerprint);
  EXPECT_FALSE(fingerprinted.has_bytes);
  EXPECT_EQ(fingerprinted.fingerprint.stats.max, 10);
  EXPECT_EQ(pass.read(0).error().code, ErrorCode::kNotRecorded);
  EXPECT_TRUE(pass.tensor(1).has_bytes);
  EXPECT_FALSE(pass.tensor(2).has_fingerprint);
  EXPECT_EQ(pass.tensor(2).byte_count, 32u);

  const Report report = recorder->report();
  EXPECT_EQ(report.names_seen, 4u);
  EXPECT_EQ(report.names_recorded, 3u);
  EXPECT_NE(report.describe().find("'never' matched none"), std::string::npos);
}

TEST(Recorder, AnEmptyFilterRecordsNothing) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path(), .filter = std::vector<std::string>{}});
  recorder->capture("x", view_of(eight(0)));
  ASSERT_TRUE(recorder->close().ok());
  EXPECT_EQ(recorder->report().tensors, 0u);
}

TEST(Recorder, StoresViewsAsTheirLogicalElements) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path()});
  const std::vector<float> storage = {1, 2, 3, 4, 5, 6};
  const std::vector<int64_t> shape = {3, 2};
  const std::vector<int64_t> strides = {1, 3};
  recorder->capture("t", {storage.data(), DType::kF32, shape, strides});
  ASSERT_TRUE(recorder->close().ok());
  const Pass pass = open_pass(*recorder, 0);
  EXPECT_EQ(values_of(pass, {.name = "t"}), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  EXPECT_TRUE(std::ranges::equal(pass.tensor(0).strides, strides));
}

TEST(Recorder, RecordsATensorLargerThanItsStagingMemory) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path(), .staging_bytes = 64 << 10});
  std::vector<float> values(1'000'003);
  std::iota(values.begin(), values.end(), 0.f);
  const std::vector<int64_t> shape = {static_cast<int64_t>(values.size())};
  const TensorView view{values.data(), DType::kF32, shape, {}};
  recorder->capture("large", view);
  recorder->capture("small", view_of(eight(1)));
  recorder->capture("large", view);  // the same bytes: stored once
  ASSERT_TRUE(recorder->close().ok());
  const Pass pass = open_pass(*recorder, 0);
  EXPECT_EQ(values_of(pass, {.name = "large"}), values);
  EXPECT_EQ(values_of(pass, {.name = "small"}), eight(1));
  EXPECT_EQ(pass.tensor(0).fingerprint.hash, fingerprint(view).hash);
  EXPECT_EQ(pass.read(0)->data, pass.read(2)->data);
  EXPECT_LT(pass.info().file_bytes, 5'000'000u);
  EXPECT_LE(recorder->report().staging_peak_bytes, 64u << 10);
}

TEST(Recorder, DropsAndCountsWhenToldNotToWait) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path(), .staging_bytes = 64 << 10, .when_full = WhenFull::kDrop});
  const std::vector<float> values(5000);
  const std::vector<int64_t> shape = {5000};
  uint64_t dropped = 0;
  recorder->begin_pass();
  for (int i = 0; i < 2000; ++i)
    if (!recorder->try_capture("x", {values.data(), DType::kF32, shape, {}}).ok()) ++dropped;
  const std::vector<float> too_large(1 << 20);
  const std::vector<int64_t> large_shape = {1 << 20};
  const Status large = recorder->try_capture("y", {too_large.data(), DType::kF32, large_shape, {}});
  ASSERT_FALSE(large.ok());
  EXPECT_EQ(large.error().code, ErrorCode::kNoSpace);
  ASSERT_TRUE(recorder->close().ok());
  const Pass pass = open_pass(*recorder, 0);
  EXPECT_EQ(pass.info().drops.staging_full, dropped + 1);
  EXPECT_EQ(pass.tensor_count(), 2000 - dropped);
}

TEST(Recorder, ReportsATensorItCannotRead) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path()});
  const std::vector<int64_t> negative = {-1};
  recorder->begin_pass();
  const Status status = recorder->try_capture("bad", {nullptr, DType::kF32, negative, {}});
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("'bad'"), std::string::npos);
  recorder->capture("bad", {nullptr, DType::kF32, kEight, {}});  // never raises
  ASSERT_TRUE(recorder->close().ok());
  EXPECT_EQ(open_pass(*recorder, 0).info().drops.unsupported, 2u);
}

TEST(Recorder, StrictRaises) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path(), .strict = true});
  EXPECT_THROW(recorder->capture("bad", {nullptr, DType::kF32, kEight, {}}), std::runtime_error);
}

TEST(Recorder, StopsKeepingBytesAtTheQuotaAndGoesOn) {
  const ScratchDirectory scratch;
  constexpr uint64_t kQuota = 1 << 20;
  auto recorder = make({.directory = scratch.path(), .quota_bytes = kQuota});
  const std::vector<int64_t> shape = {16 << 10};
  for (int i = 0; i < 100; ++i) {
    const std::vector<float> values(16 << 10, static_cast<float>(i));
    recorder->capture("x", {values.data(), DType::kF32, shape, {}});
  }
  ASSERT_TRUE(recorder->close().ok());
  const Pass pass = open_pass(*recorder, 0);
  EXPECT_EQ(pass.tensor_count(), 100u);
  uint64_t with_bytes = 0;
  for (size_t i = 0; i < pass.tensor_count(); ++i) {
    EXPECT_TRUE(pass.tensor(i).has_fingerprint);
    with_bytes += pass.tensor(i).has_bytes ? 1 : 0;
  }
  EXPECT_GT(with_bytes, 10u);
  EXPECT_LT(with_bytes, 17u);
  EXPECT_EQ(pass.info().drops.quota, 100 - with_bytes);
  EXPECT_LE(std::filesystem::file_size(pass.info().path), kQuota + 4096);
  EXPECT_NE(recorder->report().describe().find("the quota was reached"), std::string::npos);
}

TEST(Recorder, FlushPutsEverythingIntoTheFile) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path()});
  recorder->begin_pass();
  for (int i = 0; i < 10; ++i) recorder->capture("x", view_of(eight(static_cast<float>(i))));
  ASSERT_TRUE(recorder->flush().ok());
  const auto pass = Pass::open(recorder->rank_directory() / "pass00000.ttap.incomplete");
  ASSERT_TRUE(pass.ok());
  EXPECT_EQ(pass->tensor_count(), 10u);
  EXPECT_TRUE(pass->info().being_written);
}

TEST(Recorder, CapturesAfterCloseAreIgnored) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path()});
  recorder->capture("x", view_of(eight(0)));
  ASSERT_TRUE(recorder->close().ok());
  recorder->capture("x", view_of(eight(0)));
  recorder->begin_pass();
  EXPECT_TRUE(recorder->flush().ok());
  EXPECT_TRUE(recorder->close().ok());
  EXPECT_EQ(open_pass(*recorder, 0).tensor_count(), 1u);
}

TEST(Recorder, ADroppedCallKeepsItsNumber) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path(), .staging_bytes = 64 << 10, .when_full = WhenFull::kDrop});
  recorder->begin_pass();
  const std::vector<float> too_large(1 << 20);
  const std::vector<int64_t> shape = {1 << 20};
  recorder->capture("x", {too_large.data(), DType::kF32, shape, {}});  // call 1, dropped
  recorder->capture("x", view_of(eight(2)));
  ASSERT_TRUE(recorder->close().ok());
  const Pass pass = open_pass(*recorder, 0);
  ASSERT_EQ(pass.tensor_count(), 1u);
  EXPECT_EQ(pass.tensor(0).call, 2u);
}

TEST(Recorder, DropsAreCountedInTheirOwnPass) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path()});
  recorder->begin_pass();
  recorder->begin_pass();
  recorder->capture("bad", {nullptr, DType::kF32, kEight, {}});
  ASSERT_TRUE(recorder->close().ok());
  EXPECT_EQ(open_pass(*recorder, 0).info().drops.unsupported, 0u);
  EXPECT_EQ(open_pass(*recorder, 1).info().drops.unsupported, 1u);
}

TEST(Recorder, NothingOfAnotherPassGetsIntoThisOne) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path()});
  recorder->begin_pass();
  (void)recorder->begin_event({.name = "first"});
  const Event outer = recorder->begin_event({.name = "outer"});
  recorder->begin_pass();
  const Event inner = recorder->begin_event({.name = "inner", .parent = outer});
  recorder->capture(inner, view_of(eight(1)));
  recorder->capture(outer, view_of(eight(2)));  // its pass has ended
  ASSERT_TRUE(recorder->close().ok());
  const Pass pass = open_pass(*recorder, 1);
  EXPECT_EQ(pass.info().problem, "");
  ASSERT_EQ(pass.event_count(), 1u);
  EXPECT_EQ(pass.event(0).parent, kNoEvent);
  ASSERT_EQ(pass.tensor_count(), 1u);
  EXPECT_EQ(pass.tensor(0).name, "inner");
  EXPECT_EQ(recorder->report().drops, DropCounts{.late = 1});
}

TEST(Recorder, RefusesWhatIsNotAKey) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path()});
  const auto values = eight(0);
  const auto code = [&](std::string_view name, const Place& place) {
    const Status status = recorder->try_capture(name, view_of(values), place);
    return status.ok() ? std::nullopt : std::optional(status.error().code);
  };
  using std::string_view_literals::operator""sv;
  EXPECT_EQ(code("", {}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code("nul\0"sv, {}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code("a", {.role = "in/0"}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code("a", {.path = "b"}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code("with/slash and @", {.path = "/b"}), std::nullopt);
  ASSERT_TRUE(recorder->close().ok());
  EXPECT_EQ(recorder->report().drops.unsupported, 4u);
}

TEST(Recorder, AProcessOfAnotherContainerWithTheSamePidHasItsOwnDirectory) {
  const ScratchDirectory scratch;
  const auto first = scratch.path() / rank_directory_name(0, ::getpid());
  std::filesystem::create_directories(first);
  std::ofstream(first / "rank.json") << R"({"host": "another machine", "pid": 7})";
  auto recorder = make({.directory = scratch.path(), .append = true, .rank = 0});
  EXPECT_EQ(recorder->rank_directory().filename().string(), rank_directory_name(0, ::getpid(), 2));
  recorder = nullptr;
  // One of the same container has ended: what it had is gone on with.
  recorder = make({.directory = scratch.path(), .append = true, .rank = 0});
  EXPECT_EQ(recorder->rank_directory().filename().string(), rank_directory_name(0, ::getpid(), 2));
}

TEST(Recorder, OneDirectoryHasOneRecorder) {
  const ScratchDirectory scratch;
  auto first = make({.directory = scratch.path()});
  const auto second = Recorder::create({.directory = scratch.path(), .rank = 0});
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().describe().find("another recorder"), std::string::npos);
  EXPECT_TRUE(Recorder::create({.directory = scratch.path(), .rank = 1}).ok());
  ASSERT_TRUE(first->close().ok());
}

TEST(Recorder, SaysWhatIsWrongWithItsOptions) {
  const ScratchDirectory scratch;
  EXPECT_EQ(Recorder::create({}).error().code, ErrorCode::kInvalidArgument);
  const auto pattern = Recorder::create({.directory = scratch.path(), .filter = std::vector<std::string>{"("}});
  ASSERT_FALSE(pattern.ok());
  EXPECT_NE(pattern.error().message.find("bad pattern '('"), std::string::npos);
  EXPECT_FALSE(Recorder::create({.directory = scratch.path(), .staging_bytes = 10}).ok());
  EXPECT_FALSE(Recorder::create({.directory = scratch.path(), .metadata_json = "["}).ok());
  write_file(scratch / "file", {});
  EXPECT_EQ(Recorder::create({.directory = scratch / "file"}).error().code, ErrorCode::kIo);
}

TEST(Recorder, WritesWhoAndWhatBesideThePasses) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path(), .metadata_json = R"({"model":"toy"})"});
  recorder->capture("x", view_of(eight(0)));
  ASSERT_TRUE(recorder->close().ok());
  const auto text = [&](const char* name) {
    std::ifstream file(recorder->rank_directory() / name);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_NE(text("rank.json").find("\"model\": \"toy\""), std::string::npos);
  EXPECT_NE(text("rank.json").find("\"pid\": " + std::to_string(::getpid())), std::string::npos);
  EXPECT_NE(text("coverage.json").find("\"tensors\": 1"), std::string::npos);
  EXPECT_NE(open_pass(*recorder, 0).info().metadata_json.find("\"toy\""), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(recorder->rank_directory() / ".ttap-reserve"));
}

}  // namespace
}  // namespace ttap
