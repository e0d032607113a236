#include "capture/graph_pass.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "cuda/graph_runtime.h"
#include "scratch.h"
#include "ttap/recorder.h"
#include "ttap/run.h"

// A recorder with taps in graphs, on a runtime in which graphs can be captured and replayed.
namespace ttap {
namespace {

using cuda::graphs::some_stream;

std::unique_ptr<Recorder> recorder_in(const ScratchDirectory& scratch, RecorderOptions options = {}) {
  options.directory = scratch.path();
  options.rank = 0;
  return std::move(Recorder::create(options)).value();
}

std::vector<Pass> passes_of(const Recorder& recorder) {
  std::vector<Pass> passes;
  const Run run = Run::open(recorder.rank_directory()).value();
  for (const PassFile& file : run.ranks.at(0).passes) passes.push_back(Pass::open(file.path).value());
  return passes;
}

// Two floats that each replay finds as they are then.
struct Model {
  std::vector<float> values = {1, 2};
  std::vector<int64_t> shape = {2};
  TensorView view() const { return {values.data(), DType::kF32, shape, {}}; }

  // A call with a call inside it, captured.
  uint64_t capture(Recorder& recorder, Level level) const {
    const uint64_t graph = cuda::graphs::begin_capture();
    const uint64_t pass = recorder.captured_graph(0, some_stream()).value();
    const uint32_t number = recorder.open_pass();
    const Event outer =
        recorder.begin_event({.name = "layer", .kind = "module", .pass = number, .level = level, .graph = pass});
    const Event inner = recorder.begin_event(
        {.name = "layer:aten::add", .parent = outer, .stack = "here", .pass = number, .level = level, .graph = pass});
    const Place place{.device = "cuda:0", .value = 7, .gpu = OnGpu{.device = 0, .stream = some_stream()}};
    recorder.capture(inner, view(), place);
    const Use uses[] = {{.role = "out", .tensor = 3, .value = 7}};
    recorder.end_event(inner, {.arguments = "%0", .uses = uses});
    recorder.end_event(outer, {});
    recorder.close_pass(number);
    EXPECT_TRUE(recorder.end_capture(some_stream()).ok());
    cuda::graphs::end_capture();
    return graph;
  }
};

TEST(GraphPass, ReplaysHaveTheDescriptionOfAQuantizedTensor) {
  const ScratchDirectory scratch;
  auto recorder = recorder_in(scratch);
  const Model model;
  const std::string description = R"({"format": {}, "parts": ["payload"]})";
  const uint64_t graph = cuda::graphs::begin_capture();
  const uint64_t taps = recorder->captured_graph(0, some_stream()).value();
  const uint32_t number = recorder->open_pass();
  const Event event = recorder->begin_event({.name = "fc", .pass = number, .level = Level::kFull, .graph = taps});
  recorder->capture(event, model.view(),
                    {.device = "cuda:0", .gpu = OnGpu{.device = 0, .stream = some_stream()}, .group = description});
  recorder->close_pass(number);
  EXPECT_TRUE(recorder->end_capture(some_stream()).ok());
  cuda::graphs::end_capture();
  cuda::graphs::replay(graph);
  EXPECT_TRUE(recorder->close().ok());
  const std::vector<Pass> passes = passes_of(*recorder);
  ASSERT_EQ(passes.size(), 2u);
  for (const Pass& pass : passes) {
    ASSERT_EQ(pass.tensor_count(), 1u);
    EXPECT_EQ(pass.tensor(0).group, description);
    EXPECT_FALSE(pass.tensor(0).has_bytes);
  }
  EXPECT_EQ(passes[1].tensor(0).fingerprint.hash, fingerprint(model.view()).hash);
  cuda::graphs::destroy(graph);
}

TEST(GraphPass, EveryReplayIsAPassWithTheKeysOfTheCaptureAndItsOwnValues) {
  const ScratchDirectory scratch;
  auto recorder = recorder_in(scratch);
  Model model;
  const uint64_t graph = model.capture(*recorder, Level::kFull);
  for (int i = 0; i < 3; ++i) {
    cuda::graphs::replay(graph);
    model.values[1] += 1;
  }
  EXPECT_TRUE(recorder->close().ok());
  const std::vector<Pass> passes = passes_of(*recorder);
  ASSERT_EQ(passes.size(), 4);
  EXPECT_FALSE(passes[0].tensor(0).has_fingerprint);  // nothing was computed
  for (size_t i = 1; i < 4; ++i) {
    const Pass& pass = passes[i];
    ASSERT_EQ(pass.tensor_count(), 1);
    const TensorRecord tensor = pass.tensor(0);
    EXPECT_EQ(tensor.name, passes[0].tensor(0).name);
    const float expected[] = {1, 2 + static_cast<float>(i - 1)};
    const auto view = pass.read(0);
    ASSERT_TRUE(view.ok());
    EXPECT_EQ(std::memcmp(view->data, expected, sizeof expected), 0);
    const std::vector<int64_t> shape = {2};
    EXPECT_EQ(tensor.fingerprint.hash, fingerprint({expected, DType::kF32, shape, {}}).hash);
    ASSERT_EQ(pass.event_count(), 2);
    EXPECT_EQ(pass.event(1).parent, 0);
    EXPECT_EQ(pass.event(1).stack, "here");
    EXPECT_EQ(pass.event(1).arguments, "%0");
    ASSERT_EQ(pass.event(1).use_count, 1);
    EXPECT_EQ(pass.use(1, 0).record, 0);
  }
  EXPECT_EQ(recorder->report().graphs.replays, 3);
  cuda::graphs::destroy(graph);
}

TEST(GraphPass, ReplaysAfterTheRecorderIsClosedRecordNothing) {
  const ScratchDirectory scratch;
  auto recorder = recorder_in(scratch);
  const Model model;  // the replays read it
  const uint64_t graph = model.capture(*recorder, Level::kFingerprint);
  cuda::graphs::replay(graph);
  EXPECT_TRUE(recorder->close().ok());
  cuda::graphs::replay(graph);
  EXPECT_EQ(passes_of(*recorder).size(), 2);
  recorder.reset();
  cuda::graphs::replay(graph);  // what the nodes write to is the graph's
  cuda::graphs::destroy(graph);
}

TEST(GraphPass, BytesBeyondTheBoundAreKeptAsFingerprintsAndCounted) {
  const ScratchDirectory scratch;
  auto recorder = recorder_in(scratch, {.device_staging_bytes = 64 << 10});
  const Model model{std::vector<float>(32768), {32768}};  // 128 KiB
  const uint64_t graph = model.capture(*recorder, Level::kFull);
  cuda::graphs::replay(graph);
  EXPECT_TRUE(recorder->close().ok());
  const std::vector<Pass> passes = passes_of(*recorder);
  EXPECT_TRUE(passes.at(1).tensor(0).has_fingerprint);
  EXPECT_FALSE(passes.at(1).tensor(0).has_bytes);
  EXPECT_EQ(recorder->report().graphs.not_copied, 1);
  cuda::graphs::destroy(graph);
}

TEST(GraphPass, WithoutACaptureThereIsNone) {
  const ScratchDirectory scratch;
  const auto recorder = recorder_in(scratch);
  EXPECT_FALSE(recorder->captured_graph(0, some_stream()).ok());
}

}  // namespace
}  // namespace ttap
