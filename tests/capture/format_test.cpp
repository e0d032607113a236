// Recording in another format: passes are segments while they are written, and foreign files when they have ended.
#include <gtest/gtest.h>

#include "capture/recording.h"
#include "scratch.h"

namespace ttap {
namespace {

namespace fs = std::filesystem;

fs::path foreign_path(const Recorder& recorder, Format format, uint32_t number) {
  const std::string stem = "pass0000" + std::to_string(number);
  return recorder.rank_directory() / (format == Format::kNpy ? stem : stem + "." + std::string(to_string(format)));
}
fs::path segment_path(const Recorder& recorder, uint32_t number) {
  return recorder.rank_directory() / ("pass0000" + std::to_string(number) + ".ttap");
}

uint64_t bytes_of_passes(const fs::path& rank_directory) {
  uint64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(rank_directory))
    if (entry.is_regular_file() && entry.path().string().find("/pass") != std::string::npos) bytes += entry.file_size();
  return bytes;
}

class RecordingAs : public testing::TestWithParam<Format> {};

TEST_P(RecordingAs, KeepsTheSegmentOfCallsThatTellSomething) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path(), .format = GetParam()});
  const auto record = [&](const CallInfo& call) {
    const uint32_t pass = recorder->begin_pass();
    const Event event = recorder->begin_event({.name = "m:aten::relu"});
    recorder->capture(event, view_of(eight(1)));
    recorder->end_event(event, call);
    return pass;
  };
  const Use use[] = {{.role = "out"}};
  const uint32_t silent = record({});
  const uint32_t telling[] = {record({.arguments = "1"}), record({.results = "1"}), record({.notes = "{}"}),
                              record({.uses = use})};
  ASSERT_TRUE(recorder->close().ok());
  EXPECT_FALSE(fs::exists(segment_path(*recorder, silent))) << "how long it took is no reason";
  for (const uint32_t pass : telling) EXPECT_TRUE(fs::exists(segment_path(*recorder, pass))) << pass;
  const auto exported = Pass::open(foreign_path(*recorder, GetParam(), telling[0]));
  ASSERT_TRUE(exported.ok()) << exported.error().describe();
  EXPECT_EQ(values_of(*exported, {.name = "m:aten::relu"}), eight(1));
}

TEST_P(RecordingAs, EveryPassBecomesAFileOfThatFormat) {
  const ScratchDirectory scratch;
  for (uint32_t first : {0u, 2u}) {
    auto recorder = make({.directory = scratch.path(), .append = true, .format = GetParam(), .sync = first == 2});
    const uint32_t beside = recorder->open_pass();
    EXPECT_EQ(beside, first) << "numbers count on, whatever the format";
    recorder->capture("x", view_of(eight(1)), {.role = "in", .path = "/0"});
    ASSERT_TRUE(recorder->add_alias("shared", "also").ok());
    recorder->capture(recorder->begin_event({.name = "shared", .pass = beside}), view_of(eight(2)));
    ASSERT_TRUE(recorder->flush().ok());
    EXPECT_TRUE(fs::exists(segment_path(*recorder, beside).string() + ".incomplete")) << "safe from a crash";
    EXPECT_FALSE(fs::exists(foreign_path(*recorder, GetParam(), beside)));
    ASSERT_TRUE(recorder->close().ok());

    EXPECT_FALSE(fs::exists(segment_path(*recorder, beside)));
    EXPECT_FALSE(fs::exists(segment_path(*recorder, beside + 1)));
    const auto shared = Pass::open(foreign_path(*recorder, GetParam(), beside));
    ASSERT_TRUE(shared.ok()) << shared.error().describe();
    EXPECT_EQ(shared->tensor_count(), 2u);
    EXPECT_EQ(values_of(*shared, {.name = "also"}), eight(2));
    const auto current = Pass::open(foreign_path(*recorder, GetParam(), beside + 1));
    ASSERT_TRUE(current.ok()) << current.error().describe();
    EXPECT_EQ(values_of(*current, {.name = "x", .role = "in", .path = "/0"}), eight(1));
    const auto run = Run::open(scratch.path());
    ASSERT_TRUE(run.ok());
    EXPECT_EQ(run->ranks[0].passes.size(), first + 2);
    if (first == 0) {
      EXPECT_EQ(recorder->report().file_bytes, bytes_of_passes(recorder->rank_directory()));
    }
  }
}

TEST_P(RecordingAs, TheSegmentStaysWhereItSaysMore) {
  const std::function<void(Recorder&)> programs[] = {[](Recorder& recorder) {  // a fingerprint
                                                       recorder.capture("y", view_of(eight(2)),
                                                                        {.at_most = Level::kFingerprint});
                                                     },
                                                     [](Recorder& recorder) {  // a drop
                                                       recorder.capture("y", {nullptr, DType::kF32, kEight, {}});
                                                     },
                                                     [](Recorder& recorder) {  // how it ended
                                                       recorder.end_pass(Ending::kAborted);
                                                     }};
  for (const auto& program : programs) {
    const ScratchDirectory scratch;
    auto recorder = make({.directory = scratch.path(), .format = GetParam()});
    recorder->begin_pass();
    recorder->capture("x", view_of(eight(1)));
    program(*recorder);
    ASSERT_TRUE(recorder->close().ok());
    const auto foreign = Pass::open(foreign_path(*recorder, GetParam(), 0));
    ASSERT_TRUE(foreign.ok()) << foreign.error().describe();
    EXPECT_EQ(foreign->tensor_count(), 1u);
    EXPECT_EQ(values_of(*foreign, {.name = "x"}), eight(1));
    const Pass segment = open_pass(*recorder, 0);
    EXPECT_TRUE(segment.tensor_count() == 2 || segment.info().drops.unsupported == 1 ||
                segment.info().ending == Ending::kAborted);
    EXPECT_EQ(recorder->report().file_bytes, bytes_of_passes(recorder->rank_directory()));
    const auto run = Run::open(scratch.path());
    ASSERT_TRUE(run.ok());
    ASSERT_EQ(run->ranks[0].passes.size(), 1u) << "one pass, though two files";
    EXPECT_EQ(run->ranks[0].passes[0].format, Format::kSegment);
  }
}

TEST_P(RecordingAs, TheSegmentStaysWhenTheExportFails) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path(), .format = GetParam()});
  fs::create_directories(foreign_path(*recorder, GetParam(), 0) / "in the way");
  recorder->begin_pass();
  recorder->capture("x", view_of(eight(1)));
  recorder->begin_pass();
  recorder->capture("x", view_of(eight(2)));
  const Status closed = recorder->close();
  ASSERT_FALSE(closed.ok());
  EXPECT_NE(closed.error().describe().find("is there already"), std::string::npos);
  EXPECT_NE(recorder->report().first_error, "");
  EXPECT_EQ(values_of(open_pass(*recorder, 0), {.name = "x"}), eight(1));
  EXPECT_TRUE(Pass::open(foreign_path(*recorder, GetParam(), 1)).ok()) << "the next one is fine";
}

TEST_P(RecordingAs, TheQuotaMustHaveRoomForBoth) {
  const std::vector<float> values(50'000, 9.f);  // 200 kB
  const std::vector<int64_t> shape = {50'000};
  for (const uint64_t quota : {300 << 10, 500 << 10}) {
    const ScratchDirectory scratch;
    auto recorder = make({.directory = scratch.path(), .format = GetParam(), .quota_bytes = quota});
    recorder->capture("x", {values.data(), DType::kF32, shape, {}});
    const Status closed = recorder->close();
    const bool both = quota > 400'000;
    EXPECT_EQ(closed.ok(), both);
    if (!closed.ok()) {
      EXPECT_EQ(closed.error().code, ErrorCode::kNoSpace);
    }
    EXPECT_EQ(fs::exists(segment_path(*recorder, 0)), !both);
    EXPECT_EQ(fs::exists(foreign_path(*recorder, GetParam(), 0)), both);
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, RecordingAs, testing::Values(Format::kPt, Format::kSafetensors, Format::kNpy),
                         [](const auto& format) { return std::string(to_string(format.param)); });

TEST(RecordingAsNpy, WideningCountsAgainstTheQuota) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path(), .format = Format::kNpy, .quota_bytes = 300 << 10});
  const std::vector<uint8_t> values(50'000, 0x3C);
  const std::vector<int64_t> shape = {50'000};
  recorder->capture("x", {values.data(), DType::kF4E2M1FNx2, shape, {}});  // 400 kB as float32
  EXPECT_FALSE(recorder->close().ok());
  EXPECT_LE(bytes_of_passes(recorder->rank_directory()), 300u << 10);
}

}  // namespace
}  // namespace ttap
