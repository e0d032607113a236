#include "analyze/check/nonfinite.h"

#include <gtest/gtest.h>

#include <limits>

#include "analyze/check/verify.h"
#include "not_finite.h"
#include "sample_run.h"
#include "scratch.h"

namespace ttap {
namespace {

class NonfiniteTest : public testing::Test {
 protected:
  Pass reopen(test::SamplePass& writer) {
    auto pass = Pass::open(writer.finish());
    EXPECT_TRUE(pass.ok());
    return std::move(pass).value();
  }
  ScratchDirectory scratch_;
};

TEST_F(NonfiniteTest, IsFoundInExecutionOrderWithItsCounts) {
  test::SamplePass writer(scratch_.path(), 0);
  writer.tensor("clean", {2}, std::vector<float>{1, 2});
  writer.tensor("first", {3}, std::vector<float>{kNan, kInf, 1});
  writer.tensor("integers", {1}, std::vector<int64_t>{-1}, {.level = Level::kMeta});
  writer.tensor("second", {2}, std::vector<float>{-kInf, -kInf}, {.level = Level::kFingerprint});
  const Pass pass = reopen(writer);
  const NonfiniteReport report = find_nonfinite(pass);
  EXPECT_EQ(report.judged, 4u);  // an integer needs no statistics to be judged
  ASSERT_EQ(report.found.size(), 2u);
  EXPECT_EQ(report.found[0].tensor, 1u);
  EXPECT_EQ(report.found[0].values, 3u);
  EXPECT_EQ(report.found[0].nan, 1u);
  EXPECT_EQ(report.found[0].pos_inf, 1u);
  EXPECT_EQ(report.found[1].tensor, 3u);
  EXPECT_EQ(report.found[1].neg_inf, 2u);
}

TEST_F(NonfiniteTest, ATensorAtLevelMetaIsNotJudgedAndNotSkippedSilently) {
  test::SamplePass writer(scratch_.path(), 0);
  writer.tensor("unknown", {2}, std::vector<float>{kNan, 2}, {.level = Level::kMeta});
  const Pass pass = reopen(writer);
  const NonfiniteReport report = find_nonfinite(pass);
  EXPECT_EQ(report.judged, 0u);
  ASSERT_EQ(report.unjudged.size(), 1u);
  EXPECT_EQ(report.unjudged[0].error.code, ErrorCode::kNotRecorded);
}

TEST_F(NonfiniteTest, WhatComesCloseToTheEndOfItsFormatIsSuspect) {
  const auto halves = [](std::vector<uint16_t> bits) {
    const auto bytes = std::as_bytes(std::span(bits));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
  test::SamplePass writer(scratch_.path(), 0);
  writer.tensor("large", DType::kF16, {2}, halves({0x7900, 0x3C00}));          // 40960, 1
  writer.tensor("largest", DType::kF16, {2}, halves({0xFBFF, 0x3C00}));        // -65504, as a mask has it
  writer.tensor("small", DType::kF16, {3}, halves({0x0001, 0x3C00, 0x0000}));  // one of two is subnormal
  writer.tensor("fine", {2}, std::vector<float>{1e30F, 1});
  const Pass pass = reopen(writer);
  const NonfiniteReport report = find_nonfinite(pass);
  EXPECT_TRUE(report.found.empty());
  ASSERT_EQ(report.suspects.size(), 2u);
  EXPECT_EQ(report.suspects[0].tensor, 0u);
  EXPECT_EQ(report.suspects[0].suspicion, Suspicion::kNearOverflow);
  EXPECT_EQ(report.suspects[1].tensor, 2u);
  EXPECT_EQ(report.suspects[1].suspicion, Suspicion::kUnderflow);
}

TEST_F(NonfiniteTest, UnwantedTensorsAreCounted) {
  test::SamplePass writer(scratch_.path(), 0);
  writer.tensor("mask", {1}, std::vector<float>{-kInf});
  writer.tensor("value", {1}, std::vector<float>{1});
  const Pass pass = reopen(writer);
  const auto report = find_nonfinite(pass, {.wanted = [](const TensorRecord& t) { return t.name != "mask"; }});
  EXPECT_EQ(report.unwanted, 1u);
  EXPECT_EQ(report.judged, 1u);
  EXPECT_TRUE(report.found.empty());
}

TEST_F(NonfiniteTest, AParameterCountsAsAnInputOnlyWhenItIsNotFiniteItself) {
  test::SamplePass writer(scratch_.path(), 0);
  const uint32_t call = writer.event("fc");
  writer.tensor("fc", {1}, std::vector<float>{1}, {.role = "param", .path = "/bias", .event = call});
  writer.tensor("fc", {1}, std::vector<float>{kNan}, {.role = "param", .path = "/weight", .event = call});
  writer.tensor("fc", {1}, std::vector<float>{kNan}, {.event = call});
  const Pass pass = reopen(writer);
  const Situation situation = situation_of(pass, 2);
  EXPECT_EQ(situation.inputs, (std::vector<size_t>{1}));
  EXPECT_EQ(situation.nonfinite_inputs, (std::vector<size_t>{1}));
  EXPECT_TRUE(situation_of(pass, 1).inputs.empty());
}

TEST_F(NonfiniteTest, TheOriginNamesPlaceAndInputsOfTheSameCall) {
  test::SamplePass writer(scratch_.path(), 0);
  const uint32_t outer = writer.event("outer");
  const uint32_t inner = writer.event("inner", outer);
  writer.tensor("outer", {1}, std::vector<float>{1}, {.role = "in", .path = "/0", .event = outer});
  writer.tensor("inner", {1}, std::vector<float>{2}, {.role = "in", .path = "/0", .event = inner});
  writer.tensor("inner", {1}, std::vector<float>{3}, {.role = "in", .path = "/1", .event = inner});
  writer.tensor("inner", {2, 2}, std::vector<float>{1, 2, 3, kNan}, {.event = inner});
  const Pass pass = reopen(writer);
  const Situation situation = situation_of(pass, 3);
  ASSERT_TRUE(situation.first);
  EXPECT_EQ(situation.first->element, 3u);
  EXPECT_EQ(situation.inputs, (std::vector<size_t>{1, 2}));
  EXPECT_TRUE(situation.nonfinite_inputs.empty());
  EXPECT_EQ(situation.before, 2u);
}

TEST_F(NonfiniteTest, TheTensorBeforeIsOneKnownToBeClean) {
  test::SamplePass writer(scratch_.path(), 0);
  writer.tensor("clean", {1}, std::vector<float>{1});
  writer.tensor("unknown", {1}, std::vector<float>{1}, {.level = Level::kMeta});
  writer.tensor("bad", {1}, std::vector<float>{kNan}, {.level = Level::kFingerprint});
  const Pass pass = reopen(writer);
  const Situation situation = situation_of(pass, 2);
  EXPECT_FALSE(situation.first);  // no bytes to look into
  EXPECT_EQ(situation.before, 0u);
}

TEST_F(NonfiniteTest, VerifyReadsEveryByteThatWasKept) {
  test::SamplePass writer(scratch_.path(), 0);
  writer.tensor("good", {2}, std::vector<float>{1, 2});
  writer.tensor("bad", {2}, std::vector<float>{77, 78});
  writer.tensor("none", {2}, std::vector<float>{1, 2}, {.level = Level::kFingerprint});
  const auto path = writer.finish();
  auto bytes = read_file(path);
  const float value = 78;
  const auto needle = std::as_bytes(std::span(&value, 1));
  const auto place = std::search(bytes.begin(), bytes.end(), needle.begin(), needle.end());
  ASSERT_NE(place, bytes.end());
  *place = std::byte{1};
  write_file(path, bytes);
  const auto pass = Pass::open(path);
  ASSERT_TRUE(pass.ok());
  const VerifyReport report = verify_bytes(*pass);
  EXPECT_EQ(report.tensors, 1u);
  EXPECT_EQ(report.bytes, 8u);
  EXPECT_EQ(report.without_bytes, 1u);
  ASSERT_EQ(report.damaged.size(), 1u);
  EXPECT_EQ(report.damaged[0].tensor, 1u);
  EXPECT_EQ(report.damaged[0].error.code, ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace ttap
