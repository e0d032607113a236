#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>

#include "analyze/diff/diff.h"
#include "sample_groups.h"
#include "scratch.h"

namespace ttap {
namespace {

constexpr int64_t kRows = 32;
constexpr int64_t kColumns = 64;

// What each compared tensor came to, by its key in A.
std::map<std::string, Verdict> verdicts(const DiffReport& report) {
  std::map<std::string, Verdict> found;
  for (const PassDiff& pass : report.passes)
    for (const TensorDiff& tensor : pass.tensors)
      if (tensor.match.a != kNoTensor) found[to_string(pass.a->tensor(tensor.match.a).key())] = tensor.verdict;
  return found;
}

std::vector<float> values() {
  std::vector<float> made(kRows * kColumns);
  for (size_t i = 0; i < made.size(); ++i) made[i] = std::sin(0.37F * static_cast<float>(i) + 0.1F);
  return made;
}

class QuantDiffTest : public testing::Test {
 protected:
  QuantDiffTest() : a_(folder_a_.path(), 0), b_(folder_b_.path(), 0) {}

  static void add_plain(test::SamplePass& pass, const std::vector<float>& made) {
    pass.tensor("fc", {kRows, kColumns}, made, {.role = "param", .path = "/weight"});
  }
  static void add_group(test::SamplePass& pass, const std::vector<float>& made, const char* format,
                        const char* name = "fc", const char* path = "/weight") {
    test::add_group(pass, name, {kRows, kColumns}, made, quant_format(format).value(), "param", path);
  }
  static void add_rotated(test::SamplePass& pass, const std::vector<float>& made, const char* name) {
    QuantFormat format = quant_format(name).value();
    format.rotated = true;
    test::add_group(pass, "fc", {kRows, kColumns}, made, format, "param", "/weight");
  }
  DiffOptions mapped() {
    DiffOptions options;
    options.map = (maps_.path() / "names.yaml").string();
    std::ofstream(options.map) << "fc1: fc\n";
    return options;
  }
  DiffReport compare(const DiffOptions& options = {}) {
    a_.finish();
    b_.finish();
    auto report = diff(folder_a_.path().string(), folder_b_.path().string(), options);
    EXPECT_TRUE(report.ok()) << (report.ok() ? "" : report.error().message);
    return std::move(report).value();
  }

  ScratchDirectory folder_a_, folder_b_, maps_;
  test::SamplePass a_, b_;
};

TEST(QuantTolerance, GrantsAStepOfTheFormatAndTwiceItsUsualError) {
  const QuantTolerance nvfp4 = quant_tolerance(quant_format("nvfp4").value(), 6);
  EXPECT_EQ(nvfp4.rtol, 0.5);
  EXPECT_EQ(nvfp4.atol, 0.5);  // the largest scale is 1, and the smallest code half of it
  EXPECT_NEAR(nvfp4.relative, 2 * std::pow(10, -20.4 / 20), 0.01);
  const QuantTolerance int8 = quant_tolerance(quant_format("int8").value(), 127);
  EXPECT_EQ(int8.rtol, 0);
  EXPECT_EQ(int8.atol, 1);
  const QuantTolerance both = coarser(nvfp4, int8);
  EXPECT_EQ(both.rtol, 0.5);
  EXPECT_EQ(both.atol, 1);
  EXPECT_EQ(both.format, "nvfp4");
}

TEST_F(QuantDiffTest, AQuantizedRunIsDecodedAndJudgedByItsFormat) {
  add_plain(a_, values());
  add_group(b_, values(), "nvfp4");
  const DiffReport report = compare();
  ASSERT_EQ(report.passes.at(0).tensors.size(), 1u);
  const TensorDiff& tensor = report.passes[0].tensors[0];
  EXPECT_EQ(tensor.verdict, Verdict::kWithin);
  EXPECT_EQ(tensor.evidence, Evidence::kValues);
  EXPECT_EQ(tensor.note, "B decoded from nvfp4");
  EXPECT_EQ(tensor.judge->source, "nvfp4 default");
  EXPECT_EQ(report.parts_a, 0u);
  EXPECT_EQ(report.parts_b, 3u);
  EXPECT_EQ(report.decoded, 1u);
  EXPECT_EQ(report.count(Verdict::kExtra), 0u);
}

TEST_F(QuantDiffTest, WhatTheFormatDoesNotExplainHasDiverged) {
  add_plain(a_, values());
  std::vector<float> turned = values();
  std::swap_ranges(turned.begin(), turned.begin() + kColumns, turned.begin() + kColumns);
  add_group(b_, turned, "nvfp4");
  EXPECT_EQ(compare().passes.at(0).tensors.at(0).verdict, Verdict::kDiverged);
}

TEST_F(QuantDiffTest, AWrongScaleHasDiverged) {
  add_plain(a_, values());
  std::vector<float> scaled = values();
  for (float& value : scaled) value *= 1.25F;
  add_group(b_, scaled, "mxfp8");
  EXPECT_EQ(compare().passes.at(0).tensors.at(0).verdict, Verdict::kDiverged);
}

TEST_F(QuantDiffTest, TwoQuantizedRunsGoByTheCoarserFormat) {
  add_group(a_, values(), "mxfp8");
  add_group(b_, values(), "nvfp4");
  const DiffReport report = compare();
  const TensorDiff& tensor = report.passes.at(0).tensors.at(0);
  EXPECT_EQ(tensor.verdict, Verdict::kWithin);
  EXPECT_EQ(tensor.note, "A decoded from mxfp8_e4m3; B decoded from nvfp4");
  EXPECT_EQ(tensor.judge->source, "nvfp4 default");
  EXPECT_EQ(report.parts_a, 2u);
  EXPECT_EQ(report.parts_b, 3u);
}

TEST_F(QuantDiffTest, TwoRunsInOneFormatAreJudgedByTheDType) {
  // No further apart than the rounding to nvfp4 could bring them.
  std::vector<float> near = values();
  for (size_t i = 0; i < near.size(); i += 50) near[i] *= 1.2F;
  add_group(a_, values(), "nvfp4");
  add_group(b_, near, "nvfp4");
  const DiffReport report = compare();
  const TensorDiff& tensor = report.passes.at(0).tensors.at(0);
  EXPECT_EQ(tensor.verdict, Verdict::kDiverged);
  EXPECT_EQ(tensor.judge->source, "f32 default");
  const QuantTolerance nvfp4 = quant_tolerance(quant_format("nvfp4").value(), 1);
  EXPECT_LT(tensor.measures->rmse, nvfp4.relative * tensor.measures->rms_a);
}

TEST_F(QuantDiffTest, EqualValuesAreIdenticalWhateverHoldsThem) {
  add_group(a_, values(), "nvfp4");
  add_group(b_, values(), "nvfp4");
  const DiffReport report = compare();
  EXPECT_EQ(report.passes.at(0).tensors.at(0).verdict, Verdict::kIdentical);
  EXPECT_EQ(report.verdict, Verdict::kIdentical);
}

TEST_F(QuantDiffTest, ASecondOrientationIsAPart) {
  add_plain(a_, values());
  add_group(b_, values(), "nvfp4");
  test::add_group(b_, "fc", {kRows, kColumns}, values(), quant_format("nvfp4").value(), "param", "/weight/columnwise");
  const DiffReport report = compare();
  EXPECT_EQ(report.passes.at(0).tensors.size(), 1u);
  EXPECT_EQ(report.parts_b, 7u);
}

TEST_F(QuantDiffTest, SecondOrientationsAreCompared) {
  std::vector<float> other = values();
  std::ranges::reverse(other);
  add_group(a_, values(), "nvfp4");
  add_group(b_, values(), "nvfp4");
  add_group(a_, values(), "nvfp4", "fc", "/weight/columnwise");
  add_group(b_, other, "nvfp4", "fc", "/weight/columnwise");
  const DiffReport report = compare();
  const std::map<std::string, Verdict> expected = {{"fc@param/weight", Verdict::kIdentical},
                                                   {"fc@param/weight/columnwise", Verdict::kDiverged}};
  EXPECT_EQ(verdicts(report), expected);
  EXPECT_EQ(report.parts_a, 6u);
  EXPECT_EQ(report.parts_b, 6u);
}

TEST_F(QuantDiffTest, SecondOrientationsOfAMappedTensorAreCompared) {
  std::vector<float> other = values();
  std::ranges::reverse(other);
  add_group(a_, values(), "nvfp4", "fc");
  add_group(b_, values(), "nvfp4", "fc1");
  add_group(a_, values(), "nvfp4", "fc", "/weight/columnwise");
  add_group(b_, other, "nvfp4", "fc1", "/weight/columnwise");
  const std::map<std::string, Verdict> expected = {{"fc@param/weight", Verdict::kIdentical},
                                                   {"fc@param/weight/columnwise", Verdict::kDiverged}};
  EXPECT_EQ(verdicts(compare(mapped())), expected);
}

TEST_F(QuantDiffTest, PartsOfAMappedTensorAreComparedAsAWhole) {
  add_group(a_, values(), "mxfp8");
  add_group(b_, values(), "nvfp4", "fc1");
  const DiffReport report = compare(mapped());
  const std::map<std::string, Verdict> expected = {{"fc@param/weight", Verdict::kWithin}};
  EXPECT_EQ(verdicts(report), expected);
  EXPECT_EQ(report.parts_b, 3u);
}

TEST_F(QuantDiffTest, BytesWithoutADescriptionAreComparedWithTheParts) {
  const QuantFormat nvfp4 = quant_format("nvfp4").value();
  add_group(a_, values(), "nvfp4");
  const std::vector<float> made = values();
  const std::vector<int64_t> shape = {kRows, kColumns};
  const EncodedTensor encoded = encode({made.data(), DType::kF32, shape, {}}, nvfp4).value();
  const QuantGroup group = encoded.group();
  const auto add_plain_part = [&](const char* path, const TensorView& view, std::byte change) {
    const auto* data = static_cast<const std::byte*>(view.data);
    std::vector<std::byte> bytes(data, data + byte_count(view));
    bytes[0] ^= change;
    b_.tensor("fc", view.dtype, {view.shape.begin(), view.shape.end()}, bytes, {.role = "param", .path = path});
  };
  add_plain_part("/weight/payload", group.payload, std::byte{1});
  add_plain_part("/weight/scale", *group.scale, std::byte{0});
  const DiffReport report = compare();
  const std::map<std::string, Verdict> expected = {{"fc@param/weight/payload", Verdict::kDiverged},
                                                   {"fc@param/weight/scale", Verdict::kIdentical},
                                                   {"fc@param/weight", Verdict::kMissing}};
  EXPECT_EQ(verdicts(report), expected);
  EXPECT_EQ(report.parts_a, 1u);  // the global scale, which only A has
}

TEST_F(QuantDiffTest, PartsSpeakForValuesThatWereRotated) {
  std::vector<float> other = values();
  for (size_t i = 0; i < other.size(); i += 2) other[i] = -other[i];
  add_rotated(a_, values(), "nvfp4");
  add_rotated(b_, other, "nvfp4");
  const DiffReport report = compare();
  const std::map<std::string, Verdict> expected = {{"fc@param/weight/payload", Verdict::kDiverged},
                                                   {"fc@param/weight/scale", Verdict::kIdentical},
                                                   {"fc@param/weight/global_scale", Verdict::kIdentical},
                                                   {"fc@param/weight", Verdict::kInconclusive}};
  EXPECT_EQ(verdicts(report), expected);
  EXPECT_EQ(report.passes.at(0).tensors.back().reason,
            "its values were rotated before they were quantized: its parts tell whether it is the same");
}

TEST_F(QuantDiffTest, WhatWasRotatedIsIdenticalWhereAllOfItsPartsAre) {
  add_rotated(a_, values(), "nvfp4");
  add_rotated(b_, values(), "nvfp4");
  const DiffReport report = compare();
  EXPECT_EQ(verdicts(report).at("fc@param/weight"), Verdict::kIdentical);
  const TensorDiff& whole = report.passes.at(0).tensors.back();
  EXPECT_EQ(whole.evidence, Evidence::kHash);
  EXPECT_EQ(whole.reason, "");
  EXPECT_EQ(whole.note, "all of its parts are the same");
  EXPECT_EQ(report.count(Verdict::kInconclusive), 0u);
}

TEST_F(QuantDiffTest, PartsOfOtherFormatsSayNothingAboutEachOther) {
  add_rotated(a_, values(), "mxfp8");
  add_rotated(b_, values(), "nvfp4");
  const std::map<std::string, Verdict> expected = {{"fc@param/weight", Verdict::kInconclusive}};
  EXPECT_EQ(verdicts(compare()), expected);
}

TEST_F(QuantDiffTest, APartIsNotTakenForAnotherTensor) {
  // The payload has as many elements and the same role, and nothing else is left to match.
  a_.tensor("fc", DType::kU8, {kRows, kColumns / 2}, std::vector<std::byte>(kRows * kColumns / 2),
            {.role = "param", .path = "/mask"});
  add_group(b_, values(), "nvfp4");
  const DiffReport report = compare();
  EXPECT_EQ(report.count(Verdict::kMissing), 1u);
  EXPECT_EQ(report.count(Verdict::kExtra), 1u);
}

TEST_F(QuantDiffTest, ARuleGoesBeforeTheFormat) {
  add_plain(a_, values());
  add_group(b_, values(), "nvfp4");
  DiffOptions options;
  options.tolerance.rules = {"fc=1e-6,1e-6"};
  EXPECT_EQ(compare(options).passes.at(0).tensors.at(0).verdict, Verdict::kDiverged);
}

TEST_F(QuantDiffTest, ThePageGetsItsPicture) {
  add_plain(a_, values());
  add_group(b_, values(), "nvfp4");
  DiffReport report = compare();
  add_details(report, 10);
  ASSERT_EQ(report.details.size(), 1u);
  const PairDetail& detail = report.details[0].second;
  EXPECT_FALSE(detail.quant_a.has_value());
  ASSERT_TRUE(detail.quant_b.has_value());
  EXPECT_EQ(detail.quant_b->codes.size(), 16u);
  ASSERT_TRUE(detail.quant_b->stats.has_value());
  EXPECT_NEAR(detail.quant_b->stats->sqnr_db, report.passes[0].tensors[0].measures->sqnr_db, 1e-6);
}

}  // namespace
}  // namespace ttap
