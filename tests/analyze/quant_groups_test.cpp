#include "analyze/check/quant_groups.h"

#include <gtest/gtest.h>

#include <set>

#include "analyze/check/quant_check.h"
#include "sample_groups.h"
#include "scratch.h"

namespace ttap {
namespace {

constexpr int64_t kRows = 8;
constexpr int64_t kColumns = 64;

std::vector<float> ramp() {
  std::vector<float> values(kRows * kColumns);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 37) - 18.0F;
  return values;
}

class QuantGroupsTest : public testing::Test {
 protected:
  void add_group(test::SamplePass& pass, const std::string& path, QuantFormat format) {
    test::add_group(pass, "fc", {kRows, kColumns}, ramp(), format, "param", path);
  }
  Pass reopen(test::SamplePass& writer) {
    auto pass = Pass::open(writer.finish());
    EXPECT_TRUE(pass.ok());
    return std::move(pass).value();
  }
  std::string key(const Pass& pass, size_t i) { return to_string(pass.tensor(i).key()); }

  QuantFormat nvfp4_ = quant_format("nvfp4").value();
  std::vector<QuantRecipe> fp8_ = {quant_recipe(quant_format("fp8").value()).value()};
  ScratchDirectory here_, there_;
};

TEST_F(QuantGroupsTest, PartsAreKnownByTheKeyOfTheirTensor) {
  test::SamplePass writer(here_.path(), 0);
  add_group(writer, "/weight", nvfp4_);
  add_group(writer, "/weight/columnwise", nvfp4_);
  writer.tensor("fc", {2}, std::vector<float>{1, 2}, {.role = "param", .path = "/scale"});
  const Pass pass = reopen(writer);
  const auto parts = parts_of_groups(pass);
  const std::set<std::string> expected = {
      "fc@param/weight/payload",          "fc@param/weight/scale",
      "fc@param/weight/global_scale",     "fc@param/weight/columnwise/payload",
      "fc@param/weight/columnwise/scale", "fc@param/weight/columnwise/global_scale"};
  for (size_t i = 0; i < pass.tensor_count(); ++i) EXPECT_EQ(parts[i], expected.contains(key(pass, i))) << key(pass, i);
}

TEST_F(QuantGroupsTest, APassWithoutGroupsHasNoParts) {
  test::SamplePass writer(here_.path(), 0);
  writer.tensor("fc/weight/payload", {2}, std::vector<float>{1, 2});
  EXPECT_TRUE(parts_of_groups(reopen(writer)).empty());
}

TEST_F(QuantGroupsTest, TheTwinHasTheSameKeyInAnotherRun) {
  test::SamplePass quantized(here_.path(), 0), high(there_.path(), 0);
  add_group(quantized, "/weight", nvfp4_);
  add_group(quantized, "/weight/columnwise", nvfp4_);
  high.tensor("other", {1}, std::vector<float>{1});
  high.tensor("fc", {kRows, kColumns}, ramp(), {.role = "param", .path = "/weight"});
  const Pass pass = reopen(quantized), against = reopen(high);
  for (const char* path : {"/weight", "/weight/columnwise"}) {
    const size_t group = *pass.find({.name = "fc", .role = "param", .path = path});
    const auto twin = find_quant_twin(pass, group, &against);
    ASSERT_TRUE(twin.has_value()) << path;
    EXPECT_EQ(twin->pass, &against);
    EXPECT_EQ(twin->tensor, 1u);
    EXPECT_FALSE(find_quant_twin(pass, group, nullptr).has_value());
  }
}

TEST_F(QuantGroupsTest, TheTwinOfADumpIsInThePassItself) {
  test::SamplePass writer(here_.path(), 0);
  writer.tensor("fc", {kRows, kColumns}, ramp(), {.role = "param"});
  add_group(writer, "/quantized", nvfp4_);
  const Pass pass = reopen(writer);
  const auto twin = find_quant_twin(pass, pass.tensor_count() - 1, nullptr);
  ASSERT_TRUE(twin.has_value());
  EXPECT_EQ(twin->tensor, 0u);
}

TEST_F(QuantGroupsTest, WhatIsQuantizedItselfIsNoTwin) {
  test::SamplePass writer(here_.path(), 0), other(there_.path(), 0);
  add_group(writer, "/weight", nvfp4_);
  add_group(other, "/weight", nvfp4_);
  const Pass pass = reopen(writer), against = reopen(other);
  EXPECT_FALSE(find_quant_twin(pass, pass.tensor_count() - 1, &against).has_value());
}

TEST_F(QuantGroupsTest, ARecordedGroupIsJudgedByItsTwin) {
  test::SamplePass quantized(here_.path(), 0), high(there_.path(), 0);
  add_group(quantized, "/weight", nvfp4_);
  high.tensor("fc", {kRows, kColumns}, ramp(), {.role = "param", .path = "/weight"});
  const Pass pass = reopen(quantized), against = reopen(high);
  QuantCheckOptions options;
  options.against = &against;
  const QuantCheckReport report = check_quant(pass, fp8_, options);
  EXPECT_EQ(report.parts, 3u);
  ASSERT_EQ(report.found.size(), 1u);
  ASSERT_EQ(report.found[0].outcomes.size(), 2u);
  const QuantOutcome& used = report.found[0].outcomes[0];
  EXPECT_TRUE(used.in_use);
  EXPECT_EQ(used.recipe.format.name, "nvfp4");
  // What was done is what the format would do.
  const std::vector<int64_t> shape = {kRows, kColumns};
  const std::vector<float> values = ramp();
  const auto expected = quant_statistics({values.data(), DType::kF32, shape, {}}, std::span(&nvfp4_, 1));
  EXPECT_NEAR(used.stats.sqnr_db, expected->front().sqnr_db, 1e-9);
  EXPECT_FALSE(report.found[0].outcomes[1].in_use);
  EXPECT_EQ(report.found[0].outcomes[1].recipe.format.name, "fp8_e4m3");
}

TEST_F(QuantGroupsTest, OneWithoutATwinIsNamed) {
  test::SamplePass writer(here_.path(), 0);
  add_group(writer, "/weight", nvfp4_);
  const Pass pass = reopen(writer);
  const QuantCheckReport report = check_quant(pass, fp8_);
  EXPECT_TRUE(report.found.empty());
  EXPECT_TRUE(report.unjudged.empty());
  EXPECT_EQ(report.without_twin, std::vector<size_t>{3});
}

TEST_F(QuantGroupsTest, ADumpHasItsRecipeAndWhatOthersWouldDo) {
  test::SamplePass writer(here_.path(), 0);
  writer.tensor("fc", {kRows, kColumns}, ramp(), {.role = "param"});
  add_group(writer, "/quantized", nvfp4_);
  const Pass pass = reopen(writer);
  const QuantCheckReport report = check_quant(pass, fp8_);
  ASSERT_EQ(report.found.size(), 2u);
  ASSERT_EQ(report.found[0].outcomes.size(), 1u);
  EXPECT_FALSE(report.found[0].outcomes[0].in_use);
  ASSERT_EQ(report.found[1].outcomes.size(), 1u);
  EXPECT_TRUE(report.found[1].outcomes[0].in_use);
}

TEST_F(QuantGroupsTest, ARotatedGroupIsNotHeldAgainstAnything) {
  nvfp4_.rotated = true;
  test::SamplePass writer(here_.path(), 0);
  writer.tensor("fc", {kRows, kColumns}, ramp(), {.role = "param"});
  add_group(writer, "/quantized", nvfp4_);
  const Pass pass = reopen(writer);
  const QuantCheckReport report = check_quant(pass, fp8_);
  EXPECT_EQ(report.found.size(), 1u);
  ASSERT_EQ(report.unjudged.size(), 1u);
  EXPECT_EQ(report.unjudged[0].error.code, ErrorCode::kNotRecorded);
  EXPECT_NE(report.unjudged[0].error.message.find("rotated"), std::string::npos);
}

}  // namespace
}  // namespace ttap
