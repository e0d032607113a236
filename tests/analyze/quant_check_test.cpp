#include "analyze/check/quant_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/mix64.h"
#include "sample_run.h"
#include "scratch.h"

namespace ttap {
namespace {

// From -1 to 1, and none of them 0.
template <class T = float>
std::vector<T> even(size_t count) {
  std::vector<T> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = static_cast<T>((static_cast<double>(mix64((i + 1) * 0x9E3779B97F4A7C15u) >> 11) + 0.5) * 0x1p-52 - 1);
  return values;
}

// One large value in each block of 16.
std::vector<float> spiky(size_t count) {
  std::vector<float> values = even(count);
  for (size_t i = 0; i < count; i += 16) values[i] = 768;
  return values;
}

std::vector<QuantRecipe> recipes(std::initializer_list<const char*> names) {
  std::vector<QuantRecipe> made;
  for (const char* name : names) made.push_back(quant_recipe(quant_format(name).value()).value());
  return made;
}

class QuantCheckTest : public testing::Test {
 protected:
  QuantCheckTest() : writer_(scratch_.path(), 0) {}
  Pass reopen() {
    auto pass = Pass::open(writer_.finish());
    EXPECT_TRUE(pass.ok());
    return std::move(pass).value();
  }
  ScratchDirectory scratch_;
  test::SamplePass writer_;
};

TEST(QuantRecipe, KnowsWhatItsFormatUsuallyDoes) {
  // Four bits in blocks of 16 give about 20 dB on normally distributed values, eight bits of which three are mantissa
  // about 31; and with so few codes some values near zero become zero.
  const auto made = recipes({"nvfp4", "mxfp8", "fp8"});
  EXPECT_NEAR(made[0].usual_sqnr_db, 20.5, 0.5);
  EXPECT_NEAR(made[1].usual_sqnr_db, 31, 1);
  EXPECT_NEAR(made[2].usual_sqnr_db, 31.5, 0.5);
  EXPECT_NEAR(made[0].usual_underflow, 6, 1);
  EXPECT_LT(made[2].usual_underflow, 0.1);
}

TEST(QuantRecipe, AFineFormatMayLoseMoreThanACoarseOne) {
  const auto made = recipes({"nvfp4", "int8"});
  EXPECT_DOUBLE_EQ(made[0].least_sqnr_db(), made[0].usual_sqnr_db - kDecibels);
  EXPECT_DOUBLE_EQ(made[1].least_sqnr_db(), kGoodDecibels);
}

TEST_F(QuantCheckTest, GivesWhatTheStatisticsOfEachTensorAre) {
  const std::vector<float> values = even(1024);
  writer_.tensor("layer", {16, 64}, values);
  const Pass pass = reopen();
  const auto asked = recipes({"nvfp4", "mxfp8"});
  const QuantCheckReport report = check_quant(pass, asked);
  ASSERT_EQ(report.found.size(), 1u);
  ASSERT_EQ(report.found[0].outcomes.size(), 2u);
  const std::vector<int64_t> shape = {16, 64};
  const std::vector<QuantFormat> formats = {asked[0].format, asked[1].format};
  const auto expected = quant_statistics({values.data(), DType::kF32, shape, {}}, formats);
  for (size_t i = 0; i < 2; ++i) {
    const QuantOutcome& outcome = report.found[0].outcomes[i];
    EXPECT_EQ(outcome.recipe.format.name, formats[i].name);
    EXPECT_FALSE(outcome.in_use);
    EXPECT_DOUBLE_EQ(outcome.stats.sqnr_db, (*expected)[i].sqnr_db);
    EXPECT_EQ(outcome.stats.underflow, (*expected)[i].underflow);
    EXPECT_EQ(outcome.stats.scale_max, (*expected)[i].scale_max);
    EXPECT_EQ(outcome.harm, QuantHarm::kNone);
  }
}

TEST_F(QuantCheckTest, ValuesThatAnOutlierPushesToZeroAreHarm) {
  writer_.tensor("spiky", {16, 64}, spiky(1024));
  const Pass pass = reopen();
  const QuantCheckReport report = check_quant(pass, recipes({"nvfp4", "mxfp8"}));
  const auto& outcomes = report.found.at(0).outcomes;
  EXPECT_EQ(outcomes[0].harm, QuantHarm::kUnderflow);
  EXPECT_DOUBLE_EQ(outcomes[0].stats.underflow_percent(), 100.0 * 15 / 16);
  // The values that are left carry the signal: SQNR alone would not tell.
  EXPECT_GT(outcomes[0].stats.sqnr_db, outcomes[0].recipe.usual_sqnr_db);
  EXPECT_EQ(outcomes[1].harm, QuantHarm::kNone);
}

TEST_F(QuantCheckTest, AScaleForTheWholeTensorDrownsASmallRow) {
  // Seven bits below the one large value nothing is left of the others, and they are most of the signal.
  std::vector<float> values = even(65536);
  values[0] = 300;
  writer_.tensor("outlier", {64, 1024}, values);
  const Pass pass = reopen();
  const QuantCheckReport report = check_quant(pass, recipes({"int8_tensor", "int8_group32"}));
  const auto& outcomes = report.found.at(0).outcomes;
  EXPECT_NE(outcomes[0].harm, QuantHarm::kNone);
  EXPECT_LT(outcomes[0].stats.sqnr_db, outcomes[0].recipe.least_sqnr_db());
  EXPECT_EQ(outcomes[1].harm, QuantHarm::kNone);
}

TEST_F(QuantCheckTest, TheLimitMayBeGiven) {
  writer_.tensor("layer", {16, 64}, even(1024));
  const Pass pass = reopen();
  const QuantCheckReport report = check_quant(pass, recipes({"nvfp4", "mxfp8"}), {.scan = {}, .least_sqnr_db = 25.0});
  EXPECT_EQ(report.found.at(0).outcomes[0].harm, QuantHarm::kError);
  EXPECT_EQ(report.found.at(0).outcomes[1].harm, QuantHarm::kNone);
  EXPECT_TRUE(report.found.at(0).suffers());
}

TEST_F(QuantCheckTest, WhatIsNoLongerFiniteIsNotExact) {
  std::vector<float> values = even(64);
  values[5] = std::numeric_limits<float>::infinity();
  writer_.tensor("broken", {1, 64}, values);
  const Pass pass = reopen();
  const QuantCheckReport report = check_quant(pass, recipes({"fp8"}));
  const QuantOutcome& outcome = report.found.at(0).outcomes.at(0);
  EXPECT_EQ(outcome.stats.not_finite, 1u);
  EXPECT_EQ(outcome.harm, QuantHarm::kOverflow);
  EXPECT_EQ(outcome.stats.sqnr_db, -std::numeric_limits<double>::infinity());
}

TEST_F(QuantCheckTest, ATensorWithoutAFiniteValueFitsNothing) {
  writer_.tensor("nan", {1, 64}, std::vector<float>(64, std::numeric_limits<float>::quiet_NaN()));
  writer_.tensor("inf", {1, 64}, std::vector<float>(64, -std::numeric_limits<float>::infinity()));
  const Pass pass = reopen();
  const QuantCheckReport report = check_quant(pass, recipes({"nvfp4", "mxfp8", "int8"}));
  ASSERT_EQ(report.found.size(), 2u);
  for (const QuantFinding& finding : report.found)
    for (const QuantOutcome& outcome : finding.outcomes) {
      EXPECT_EQ(outcome.harm, QuantHarm::kError);
      EXPECT_EQ(outcome.stats.sqnr_db, -std::numeric_limits<double>::infinity());
    }
}

TEST_F(QuantCheckTest, WhatCannotBeQuantizedIsCountedAndWhatWasNotKeptIsNamed) {
  writer_.tensor("whole", {4}, std::vector<int64_t>{1, 2, 3, 4});
  writer_.tensor("empty", {0, 4}, std::vector<float>{});
  writer_.tensor("hidden", {16}, even(16));
  writer_.tensor("kept", {16}, even(16), {.level = Level::kFingerprint});
  const Pass pass = reopen();
  QuantCheckOptions options;
  size_t seen = 0;
  options.scan.wanted = [](const TensorRecord& tensor) { return tensor.name != "hidden"; };
  options.scan.progress = [&](const TensorRecord&) { ++seen; };
  const QuantCheckReport report = check_quant(pass, recipes({"fp8"}), options);
  EXPECT_TRUE(report.found.empty());
  EXPECT_EQ(report.not_real, 2u);
  EXPECT_EQ(report.unwanted, 1u);
  ASSERT_EQ(report.unjudged.size(), 1u);
  EXPECT_EQ(report.unjudged[0].tensor, 3u);
  EXPECT_EQ(report.unjudged[0].error.code, ErrorCode::kNotRecorded);
  EXPECT_EQ(seen, 4u);
}

TEST_F(QuantCheckTest, DoubleIsRoundedFirst) {
  writer_.tensor("single", {16, 16}, even(256));
  writer_.tensor("double", {16, 16}, even<double>(256));
  const Pass pass = reopen();
  const QuantCheckReport report = check_quant(pass, recipes({"nvfp4"}));
  ASSERT_EQ(report.found.size(), 2u);
  EXPECT_EQ(report.found[0].outcomes[0].stats.mse, report.found[1].outcomes[0].stats.mse);
}

TEST_F(QuantCheckTest, EqualBytesInAnotherShapeAreQuantizedForThemselves) {
  writer_.tensor("rows", {16, 16}, spiky(256));
  writer_.tensor("again", {16, 16}, spiky(256));
  writer_.tensor("columns", {32, 8}, spiky(256));
  const Pass pass = reopen();
  const QuantCheckReport report = check_quant(pass, recipes({"nvfp4"}));
  ASSERT_EQ(report.found.size(), 3u);
  const auto underflow = [&](size_t i) { return report.found[i].outcomes[0].stats.underflow; };
  EXPECT_EQ(report.found[1].tensor, 1u);
  EXPECT_EQ(underflow(0), underflow(1));
  EXPECT_GT(underflow(0), underflow(2));  // blocks of a row of 8 that has no large value keep theirs
}

TEST_F(QuantCheckTest, TheWorstComesFirst) {
  writer_.tensor("calm", {16, 64}, even(1024));
  writer_.tensor("spiky", {16, 64}, spiky(1024));
  writer_.tensor("zeros", {16, 64}, std::vector<float>(1024));
  const Pass pass = reopen();
  QuantCheckReport report = check_quant(pass, recipes({"nvfp4"}));
  std::ranges::stable_sort(report.found, is_worse);
  EXPECT_EQ(report.found[0].tensor, 1u);  // suffers, though its SQNR is higher
  EXPECT_EQ(report.found[1].tensor, 0u);
  EXPECT_EQ(report.found[2].tensor, 2u);  // exact
}

}  // namespace
}  // namespace ttap
