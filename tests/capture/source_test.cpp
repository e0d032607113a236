// What a source of events may tell the recorder: the level it has decided on, calls done again, names that are shared.
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "capture/recording.h"
#include "cuda/runtime/runtime.h"
#include "scratch.h"

namespace ttap {
namespace {

TEST(GpuTensors, WithoutAGpuAreAnErrorThatSaysWhyAndAreCounted) {
  if (cuda::available()) GTEST_SKIP() << "skipped: there is a GPU";
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path()});
  const auto values = eight(0);
  for (const Level level : {Level::kFull, Level::kFingerprint}) {
    const Status status = recorder->try_capture("x", view_of(values), {.at_most = level, .gpu = OnGpu{}});
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.error().message.find(cuda::unavailable_reason()), std::string::npos);
  }
  // Of this one nothing has to be read.
  EXPECT_TRUE(recorder->try_capture("x", view_of(values), {.at_most = Level::kMeta, .gpu = OnGpu{}}).ok());
  ASSERT_TRUE(recorder->close().ok());
  EXPECT_EQ(recorder->report().drops.unsupported, 2u);
  EXPECT_EQ(recorder->report().tensors, 1u);
}

TEST(Source, ItsLevelIsNotAskedOfTheFilter) {
  const ScratchDirectory scratch;
  auto recorder = make(
      {.directory = scratch.path(), .filter = std::vector<std::string>{"kept"}, .level_rules = {{".*", Level::kMeta}}});
  recorder->begin_pass();
  const Event full = recorder->begin_event({.name = "rejected", .level = Level::kFull});
  const Event fingerprint = recorder->begin_event({.name = "kept", .level = Level::kFingerprint});
  ASSERT_TRUE(full.wanted());
  recorder->capture(full, view_of(eight(1)));
  recorder->capture(fingerprint, view_of(eight(2)));
  EXPECT_FALSE(recorder->begin_event({.name = "rejected"}).wanted()) << "who asks the filter still gets its answer";
  recorder->capture("kept", view_of(eight(3)));
  ASSERT_TRUE(recorder->close().ok());

  const Pass pass = open_pass(*recorder, 0);
  ASSERT_EQ(pass.tensor_count(), 3u);
  EXPECT_TRUE(pass.tensor(0).has_bytes);
  EXPECT_EQ(pass.tensor(1).level, Level::kFingerprint);
  EXPECT_TRUE(pass.tensor(1).has_fingerprint);
  EXPECT_FALSE(pass.tensor(1).has_bytes);
  EXPECT_EQ(pass.tensor(2).level, Level::kMeta);
  EXPECT_EQ(pass.tensor(2).call, 2u);
  EXPECT_EQ(recorder->report().names_seen, 2u);
  EXPECT_EQ(recorder->report().names_recorded, 2u);
}

TEST(Source, ANameItDecidedOnIsMatchedAgainstNoPattern) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path(), .filter = std::vector<std::string>{"x"}});
  (void)recorder->begin_event({.name = "x", .level = Level::kFull});
  EXPECT_EQ(recorder->report().patterns.at(0).second, 0u);
  (void)recorder->begin_event({.name = "x"});
  EXPECT_EQ(recorder->report().patterns.at(0).second, 1u);
}

TEST(Source, MayKeepLessOfOneTensor) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path()});
  const Event event = recorder->begin_event({.name = "x"});
  recorder->capture(event, view_of(eight(1)), {.path = "/0", .at_most = Level::kFingerprint});
  recorder->capture(event, view_of(eight(2)), {.path = "/1", .at_most = Level::kFull});
  recorder->capture("low", view_of(eight(3)), {.at_most = Level::kMeta});
  const Event low = recorder->begin_event({.name = "low", .level = Level::kMeta});
  recorder->capture(low, view_of(eight(3)), {.at_most = Level::kFull});
  ASSERT_TRUE(recorder->close().ok());
  const Pass pass = open_pass(*recorder, 0);
  EXPECT_EQ(pass.tensor(0).level, Level::kFingerprint);
  EXPECT_EQ(pass.tensor(0).fingerprint.stats.max, 8);
  EXPECT_TRUE(pass.tensor(1).has_bytes);
  EXPECT_EQ(pass.tensor(2).level, Level::kMeta);
  EXPECT_EQ(pass.tensor(3).level, Level::kMeta) << "at most, not at least";
}

TEST(Source, ATensorWithoutDataIsRecordedAtMeta) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path()});
  const std::vector<int64_t> huge = {1 << 20, 1 << 20};  // nothing so large is ever touched
  const std::vector<int64_t> strides = {1, 1 << 20};
  const TensorView fake{nullptr, DType::kBF16, huge, strides};
  EXPECT_TRUE(recorder->try_capture("fake", fake, {.device = "meta", .at_most = Level::kMeta}).ok());
  EXPECT_FALSE(recorder->try_capture("fake", fake, {.at_most = Level::kFingerprint}).ok());
  ASSERT_TRUE(recorder->close().ok());
  const Pass pass = open_pass(*recorder, 0);
  ASSERT_EQ(pass.tensor_count(), 1u);
  EXPECT_EQ(pass.tensor(0).byte_count, uint64_t{2} << 40);
  EXPECT_EQ(pass.tensor(0).device, "meta");
  EXPECT_TRUE(std::ranges::equal(pass.tensor(0).strides, strides));
  EXPECT_FALSE(pass.tensor(0).has_fingerprint);
  EXPECT_EQ(pass.info().drops.unsupported, 1u);
}

TEST(Source, ACallDoneAgainDoesNotShiftTheOthers) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path()});
  recorder->begin_pass();
  const auto call = [&](bool again, float value) {
    const Event event = recorder->begin_event({.name = "x", .again = again});
    recorder->capture(event, view_of(eight(value)), {.role = again ? "recompute" : "out"});
    return event.call;
  };
  EXPECT_EQ(call(false, 1), 1u);
  EXPECT_EQ(call(true, 2), 1u);
  EXPECT_EQ(call(false, 3), 2u);
  EXPECT_EQ(call(true, 4), 2u);
  recorder->capture("x", view_of(eight(5)));
  recorder->begin_pass();
  EXPECT_EQ(call(true, 6), 1u);
  ASSERT_TRUE(recorder->close().ok());

  const Pass pass = open_pass(*recorder, 0);
  std::set<std::string> keys;
  for (size_t i = 0; i < pass.tensor_count(); ++i) keys.insert(to_string(pass.tensor(i).key()));
  EXPECT_EQ(keys, (std::set<std::string>{"x", "x::call2", "x::call3", "x@recompute", "x::call2@recompute"}));
  EXPECT_EQ(values_of(pass, *parse_key("x::call2@recompute")), eight(4));
}

TEST(Source, ASharedModuleIsFoundUnderEachOfItsNames) {
  for (const bool deduplicate : {true, false}) {
    const ScratchDirectory scratch;
    auto recorder = make({.directory = scratch.path(), .staging_bytes = 256 << 10, .deduplicate = deduplicate});
    recorder->begin_pass();
    recorder->capture("embed", view_of(eight(1)));  // before anybody knew
    ASSERT_TRUE(recorder->add_alias("embed", "head").ok());
    ASSERT_TRUE(recorder->add_alias("embed", "tied/again").ok());
    ASSERT_TRUE(recorder->add_alias("embed", "head").ok());  // once is enough
    ASSERT_TRUE(recorder->add_alias("embed", "embed").ok());
    std::vector<float> large(100'000, 7.f);  // in pieces
    const std::vector<int64_t> shape = {100'000};
    const Event event = recorder->begin_event({.name = "embed"});
    recorder->capture(event, view_of(eight(2)), {.role = "in"});
    recorder->capture(event, {large.data(), DType::kF32, shape, {}});
    ASSERT_TRUE(recorder->close().ok());

    const Pass pass = open_pass(*recorder, 0);
    ASSERT_EQ(pass.tensor_count(), 1u + 3 + 3);
    EXPECT_EQ(pass.event_count(), 2u);
    for (const char* name : {"embed", "head", "tied/again"}) {
      const auto in = pass.find({.name = name, .call = 2, .role = "in"});
      const auto out = pass.find({.name = name, .call = 2});
      ASSERT_TRUE(in && out) << name;
      EXPECT_EQ(pass.tensor(*out).event, 1u);
      EXPECT_EQ(values_of(pass, {.name = name, .call = 2, .role = "in"}), eight(2));
      EXPECT_EQ(values_of(pass, {.name = name, .call = 2}), large);
      EXPECT_EQ(pass.read(*out)->data, pass.read(*pass.find({.name = "embed", .call = 2}))->data) << "stored once";
    }
    EXPECT_FALSE(pass.find({.name = "head"})) << "what came before is not told again";
    EXPECT_LT(pass.info().file_bytes, 500'000u);
    const Report report = recorder->report();
    EXPECT_EQ(report.tensors, 7u);
    EXPECT_EQ(report.tensor_bytes, 32u + 3 * 32 + 3 * 400'000);
    EXPECT_EQ(report.deduplicated, 4u);
    EXPECT_EQ(report.names_seen, 1u);
  }
}

TEST(Source, AnAliasHasNoBytesWhereItsTensorHasNone) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path(), .quota_bytes = 64 << 10});
  ASSERT_TRUE(recorder->add_alias("x", "y").ok());
  const std::vector<float> large(20'000);
  const std::vector<int64_t> shape = {20'000};
  recorder->capture("x", {large.data(), DType::kF32, shape, {}});
  ASSERT_TRUE(recorder->close().ok());
  const Pass pass = open_pass(*recorder, 0);
  ASSERT_EQ(pass.tensor_count(), 2u);
  EXPECT_FALSE(pass.tensor(1).has_bytes);
  EXPECT_EQ(pass.tensor(1).fingerprint.hash, pass.tensor(0).fingerprint.hash);
  EXPECT_EQ(pass.info().drops.quota, 2u);
}

TEST(Source, MayCountWhatItCannotHandOver) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path()});
  const uint32_t beside = recorder->open_pass();
  recorder->begin_pass();
  const Status status = recorder->count_unsupported("x", "it is sparse");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(status.error().message, "'x' cannot be recorded: it is sparse");
  EXPECT_FALSE(recorder->count_unsupported("x", "it is fake", beside).ok());
  EXPECT_FALSE(recorder->count_unsupported("y", "it is fake", beside).ok());
  recorder->close_pass(beside);
  EXPECT_FALSE(recorder->count_unsupported("y", "it is fake", beside).ok());
  ASSERT_TRUE(recorder->close().ok());
  EXPECT_EQ(open_pass(*recorder, static_cast<int>(beside)).info().drops, DropCounts{.unsupported = 2});
  EXPECT_EQ(open_pass(*recorder, 1).info().drops, DropCounts{.unsupported = 1});
  EXPECT_EQ(recorder->report().drops, (DropCounts{.unsupported = 3, .late = 1}));
}

TEST(Source, SaysInTheCoverageWhatItSaw) {
  const auto coverage = [](std::initializer_list<const char*> said) {
    const ScratchDirectory scratch;
    auto recorder = make({.directory = scratch.path()});
    for (const char* json : said) {
      const Status taken = recorder->set_source_json(json);
      EXPECT_EQ(taken.ok(), std::string_view(json).ends_with('}')) << json;
    }
    EXPECT_TRUE(recorder->close().ok());
    std::ifstream file(recorder->rank_directory() / "coverage.json");
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_EQ(coverage({}).find("\"source\""), std::string::npos);
  const std::string told = coverage({R"({"old": 1})", R"({"never_called": ["a.b"]})", "[1]", "{"});
  EXPECT_NE(told.find("\"source\": {\n    \"never_called\": [\n      \"a.b\""), std::string::npos) << told;
  EXPECT_EQ(told.find("old"), std::string::npos);
}

TEST(Source, RefusesAnAliasThatIsNoName) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path()});
  EXPECT_EQ(recorder->add_alias("x", "").error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(recorder->add_alias("", "x").error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(recorder->add_alias("x", std::string_view("a\0b", 3)).error().code, ErrorCode::kInvalidArgument);
  recorder->capture("x", view_of(eight(1)));
  ASSERT_TRUE(recorder->close().ok());
  EXPECT_EQ(open_pass(*recorder, 0).tensor_count(), 1u);
}

}  // namespace
}  // namespace ttap
