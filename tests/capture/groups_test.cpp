// Quantized tensors on their way through the recorder.
#include "ttap/group.h"

#include <gtest/gtest.h>

#include "capture/recording.h"
#include "scratch.h"
#include "ttap/fingerprint.h"

namespace ttap {
namespace {

const std::string kDescription =
    to_json(GroupDescription{.format = *quant_format("fp8_e4m3"), .parts = {"payload", "scale"}});

TEST(RecordedGroups, HaveTheFingerprintOfTheirValuesAndNoBytes) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path()});
  const std::vector<float> values = eight(1);
  ASSERT_TRUE(recorder->add_alias("fc", "tied").ok());
  recorder->capture("fc", view_of(values), {.role = "param", .path = "/weight", .group = kDescription});
  recorder->capture("fc", view_of(values), {.role = "param", .path = "/bias"});
  ASSERT_TRUE(recorder->close().ok());
  const Pass pass = open_pass(*recorder, 0);
  for (const char* name : {"fc", "tied"}) {
    const auto weight = pass.find({.name = name, .role = "param", .path = "/weight"});
    ASSERT_TRUE(weight);
    const TensorRecord record = pass.tensor(*weight);
    EXPECT_EQ(record.group, kDescription);
    EXPECT_EQ(record.level, Level::kSketch);
    EXPECT_FALSE(record.has_bytes);
    EXPECT_EQ(record.fingerprint.hash, fingerprint(view_of(values)).hash);
    const auto bias = pass.find({.name = name, .call = 2, .role = "param", .path = "/bias"});
    ASSERT_TRUE(bias);
    EXPECT_EQ(pass.tensor(*bias).group, "");
    EXPECT_TRUE(pass.tensor(*bias).has_bytes);
  }
}

TEST(RecordedGroups, AreKeptAtALowerLevelWhenAskedFor) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path()});
  recorder->capture("fc", {nullptr, DType::kF32, kEight, {}}, {.at_most = Level::kMeta, .group = kDescription});
  ASSERT_TRUE(recorder->close().ok());
  const Pass pass = open_pass(*recorder, 0);
  EXPECT_EQ(pass.tensor(0).group, kDescription);
  EXPECT_EQ(pass.tensor(0).level, Level::kMeta);
  EXPECT_FALSE(pass.tensor(0).has_fingerprint);
}

// The description of a tensor larger than the staging memory is small: it goes in one piece.
TEST(RecordedGroups, MayBeLargerThanTheStagingMemory) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path(), .staging_bytes = 64 << 10});
  const std::vector<float> values(1 << 18, 2.5F);
  const std::vector<int64_t> shape = {1 << 18};
  recorder->capture("fc", {values.data(), DType::kF32, shape, {}}, {.group = kDescription});
  ASSERT_TRUE(recorder->close().ok());
  const Pass pass = open_pass(*recorder, 0);
  ASSERT_EQ(pass.tensor_count(), 1u);
  EXPECT_EQ(pass.tensor(0).group, kDescription);
  EXPECT_EQ(pass.tensor(0).byte_count, values.size() * sizeof(float));
}

TEST(RecordedGroups, AreToldOfInEveryFormat) {
  for (const Format format : {Format::kPt, Format::kSafetensors, Format::kNpy}) {
    const ScratchDirectory scratch;
    auto recorder = make({.directory = scratch.path(), .format = format});
    const uint8_t payload[] = {0x38, 0xC0};
    const std::vector<int64_t> shape = {2};
    const float scale = 1;
    const std::vector<float> values = {1, -2};
    const Event event = recorder->begin_event({.name = "fc"});
    recorder->capture(event, {payload, DType::kF8E4M3FN, shape, {}}, {.path = "/payload"});
    recorder->capture(event, {&scale, DType::kF32, {}, {}}, {.path = "/scale"});
    recorder->capture(event, {values.data(), DType::kF32, shape, {}}, {.group = kDescription});
    ASSERT_TRUE(recorder->close().ok());
    EXPECT_FALSE(std::filesystem::exists(recorder->rank_directory() / "pass00000.ttap"));
    const auto run = Run::open(recorder->rank_directory());
    ASSERT_TRUE(run.ok());
    const auto pass = Pass::open(run->ranks.at(0).passes.at(0).path);
    ASSERT_TRUE(pass.ok()) << pass.error().describe();
    const auto whole = pass->find({.name = "fc"});
    ASSERT_TRUE(whole);
    const auto found = read_values(*pass, *whole);
    ASSERT_TRUE(found.ok()) << found.error().describe();
    const auto* data = static_cast<const float*>(found->view.data);
    EXPECT_EQ(std::vector<float>(data, data + 2), values);
  }
}

}  // namespace
}  // namespace ttap
