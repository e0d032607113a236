#include <gtest/gtest.h>

#include <cstring>

#include "sample_tensors.h"
#include "scratch.h"
#include "ttap/recorder.h"
#include "ttap/run.h"

namespace ttap {
namespace {

class RoundTrip : public testing::TestWithParam<Format> {};

// Record, and where another format is asked for, export; then read back. In .npy what NumPy lacks is widened.
TEST_P(RoundTrip, EveryDtypeInEveryLayoutComesBackBitForBit) {
  const ScratchDirectory scratch;
  auto recorder = Recorder::create({.directory = scratch / "run", .rank = 0});
  ASSERT_TRUE(recorder.ok());
  const auto samples = test::sample_tensors();
  for (const auto& sample : samples) (*recorder)->capture(sample.name, sample.view());
  ASSERT_TRUE((*recorder)->close().ok());
  auto pass = Pass::open((*recorder)->rank_directory() / "pass00000.ttap");
  ASSERT_TRUE(pass.ok());
  if (GetParam() != Format::kSegment) {
    const auto exported = export_pass(*pass, GetParam(), scratch / "exported");
    ASSERT_TRUE(exported.ok()) << exported.error().describe();
    EXPECT_EQ(exported->tensors, samples.size());
    pass = Pass::open(exported->path);
    ASSERT_TRUE(pass.ok()) << pass.error().describe();
    EXPECT_EQ(pass->info().format, GetParam());
  }
  ASSERT_EQ(pass->tensor_count(), samples.size());
  for (const auto& sample : samples) {
    const auto index = pass->find({.name = sample.name});
    ASSERT_TRUE(index) << sample.name;
    const auto view = pass->read(*index);
    ASSERT_TRUE(view.ok()) << view.error().describe();
    const TensorRecord record = pass->tensor(*index);
    if (record.true_dtype) {
      EXPECT_EQ(*record.true_dtype, sample.dtype) << sample.name;
      EXPECT_EQ(record.dtype, DType::kF32) << sample.name;
      continue;
    }
    EXPECT_EQ(record.dtype, sample.dtype) << sample.name;
    EXPECT_TRUE(std::ranges::equal(record.shape, sample.shape)) << sample.name;
    EXPECT_EQ(test::logical_bytes(*view), test::logical_bytes(sample.view())) << sample.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, RoundTrip,
                         testing::Values(Format::kSegment, Format::kPt, Format::kSafetensors, Format::kNpy),
                         [](const auto& format) { return std::string(to_string(format.param)); });

}  // namespace
}  // namespace ttap
