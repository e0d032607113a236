// What quantizing did, or would do.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "made_group.h"

namespace ttap {
namespace {

QuantStats what_if(const std::vector<float>& values, const std::vector<int64_t>& shape, const std::string& recipe,
                   const QuantStatsOptions& options = {}) {
  const QuantFormat formats[] = {format_named(recipe)};
  auto result = quant_statistics({values.data(), DType::kF32, shape, {}}, formats, options);
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().describe());
  return result->at(0);
}

const std::vector<std::string> kRecipes = {
    "fp8_e4m3", "fp8_e5m2_row",    "fp8_block_1x128", "fp8_block_128x128", "mxfp8", "mxfp6_e2m3",
    "mxfp4",    "nvfp4",           "nvfp4_2d",        "nvfp4_row",         "int8",  "int8_asym",
    "int4",     "int4_group8_asym"};

// Values of many magnitudes, some of them zero.
std::vector<float> wide_values(size_t count) {
  auto values = normal_values(count, 3);
  for (size_t i = 0; i < count; ++i) values[i] = i % 11 == 0 ? 0 : std::ldexp(values[i], static_cast<int>(i % 23) - 15);
  return values;
}

TEST(Statistics, AreThoseOfTheEncodedTensor) {
  const std::vector<int64_t> shape = {3, 50, 208};
  const auto values = wide_values(count_of(shape));
  const TensorView tensor{values.data(), DType::kF32, shape, {}};
  std::vector<QuantFormat> formats;
  for (const std::string& name : kRecipes) formats.push_back(format_named(name));
  const auto together = quant_statistics(tensor, formats, {.block_amax = true});
  ASSERT_TRUE(together.ok());
  for (size_t k = 0; k < formats.size(); ++k) {
    const auto made = encode(tensor, formats[k]);
    ASSERT_TRUE(made.ok());
    const QuantStats& stats = together->at(k);
    const auto of_group = quant_statistics(tensor, made->group(), true);
    ASSERT_TRUE(of_group.ok());
    const auto after = decoded(made->group());
    uint64_t underflow = 0;
    double error = 0, squares = 0, largest = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      underflow += values[i] != 0 && after[i] == 0 ? 1 : 0;
      const double difference = double{values[i]} - after[i];
      error += difference * difference;
      squares += double{values[i]} * values[i];
      largest = std::max(largest, std::fabs(difference));
    }
    for (const QuantStats& found : {stats, *of_group}) {
      EXPECT_EQ(found.count, values.size()) << kRecipes[k];
      EXPECT_EQ(found.underflow, underflow) << kRecipes[k];
      EXPECT_NEAR(found.mse, error / static_cast<double>(values.size()), 1e-9 * found.mse) << kRecipes[k];
      EXPECT_NEAR(found.sqnr_db, 10 * std::log10(squares / error), 1e-6) << kRecipes[k];
      EXPECT_EQ(found.max_error, largest) << kRecipes[k];
      EXPECT_EQ(std::accumulate(found.codes.begin(), found.codes.end(), uint64_t{0}), values.size());
    }
    EXPECT_EQ(stats.codes, of_group->codes) << kRecipes[k];
    EXPECT_EQ(stats.overflow, of_group->overflow) << kRecipes[k];
    EXPECT_EQ(stats.scale_min, of_group->scale_min) << kRecipes[k];
    EXPECT_EQ(stats.scale_max, of_group->scale_max) << kRecipes[k];
    EXPECT_EQ(stats.dynamic_range, of_group->dynamic_range) << kRecipes[k];
    EXPECT_EQ(stats.block_dynamic_range, of_group->block_dynamic_range) << kRecipes[k];
    EXPECT_EQ(stats.zero_blocks, of_group->zero_blocks) << kRecipes[k];
    EXPECT_EQ(stats.block_amax, of_group->block_amax) << kRecipes[k];
    // Alone as among others.
    const auto alone = quant_statistics(tensor, {&formats[k], 1});
    EXPECT_EQ(alone->at(0).mse, stats.mse) << kRecipes[k];
    EXPECT_EQ(alone->at(0).codes, stats.codes) << kRecipes[k];
  }
}

TEST(Statistics, UnderflowAndItsRange) {
  // One block whose largest is 2^10: in MXFP8 the scale is 4, and half of 4 · 2^-9 is where nothing is left.
  std::vector<float> values(32, 0.0F);
  values[0] = 1024;
  values[1] = 0x1p-8F;  // rounds to zero: a tie with the smallest code
  values[2] = 0x1p-7F;
  const QuantStats stats = what_if(values, {1, 32}, "mxfp8");
  EXPECT_EQ(stats.underflow, 1u);
  EXPECT_DOUBLE_EQ(stats.underflow_percent(), 100.0 / 32);
  EXPECT_EQ(stats.overflow, 0u);
  EXPECT_EQ(stats.amax, 1024);
  EXPECT_EQ(stats.dynamic_range, 18);
  EXPECT_EQ(stats.block_dynamic_range, 18);
  EXPECT_EQ(stats.scale_min, 4);
  EXPECT_EQ(stats.scale_max, 4);
  EXPECT_EQ(stats.max_error, 0x1p-8);
}

TEST(Statistics, Overflow) {
  // 470 and 500 round beyond 448 with the scale of 1 that the floor rule gives; 460 does not.
  std::vector<float> values(32, 1.0F);
  values[0] = 500;
  values[1] = -470;
  values[2] = 460;
  EXPECT_EQ(what_if(values, {1, 32}, "mxfp8").overflow, 2u);
  QuantStatsOptions even;
  even.encode.mx_rule = MxScaleRule::kEven;
  EXPECT_EQ(what_if(values, {1, 32}, "mxfp8", even).overflow, 0u);
}

TEST(Statistics, AScaleOfZeroLosesAllToUnderflow) {
  const std::vector<float> values(64, std::numeric_limits<float>::denorm_min());
  const QuantStats stats = what_if(values, {1, 64}, "fp8_e4m3");
  EXPECT_EQ(stats.scale_max, 0);
  EXPECT_EQ(stats.underflow, 64u);
  EXPECT_EQ(stats.overflow, 0u);
}

TEST(Statistics, ZerosHaveNoErrorAndNoRange) {
  for (const std::string& name : kRecipes) {
    const QuantStats stats = what_if(std::vector<float>(640, 0.0F), {10, 64}, name);
    EXPECT_EQ(stats.mse, 0) << name;
    EXPECT_EQ(stats.sqnr_db, std::numeric_limits<double>::infinity()) << name;
    EXPECT_EQ(stats.underflow, 0u) << name;
    EXPECT_EQ(stats.overflow, 0u) << name;
    EXPECT_EQ(stats.amax, 0) << name;
    EXPECT_EQ(stats.dynamic_range, 0) << name;
    EXPECT_GT(stats.zero_blocks, 0u) << name;
    EXPECT_EQ(stats.scales_nan, 0u) << name;
  }
}

TEST(Statistics, NotFiniteValuesCountForNothingElse) {
  auto values = normal_values(4 * 64);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = i % 32 == 0 ? 2 : std::fmod(values[i], 2.0F);  // none saturates
  values[5] = std::numeric_limits<float>::quiet_NaN();
  values[70] = -std::numeric_limits<float>::infinity();
  const QuantStats stats = what_if(values, {4, 64}, "mxfp8");
  EXPECT_EQ(stats.not_finite, 2u);
  EXPECT_EQ(stats.scales_nan, 1u);
  EXPECT_EQ(stats.overflow, 31u);  // what shares a block with the NaN is NaN
  EXPECT_TRUE(std::isfinite(stats.mse));
  EXPECT_LT(stats.amax, 10);
  EXPECT_GT(stats.amax, 1);
}

TEST(Statistics, ScalesAreDecodedAndPaddingDoesNotCount) {
  MadeGroup made{.format = format_named("mxfp8"), .shape = {2, 64}};
  made.format.scale_layout = ScaleLayout::kPadded;
  made.payload.assign(128, 0x38);
  made.scale.assign(128 * 4, 0xFE);
  for (const size_t i : {0, 1, 4, 5}) made.scale[i] = static_cast<uint8_t>(100 + i);
  made.scale_shape = {128, 4};
  const auto values = decoded(made.group());
  const auto stats = quant_statistics({values.data(), DType::kF32, made.shape, {}}, made.group());
  ASSERT_TRUE(stats.ok());
  EXPECT_EQ(stats->scale_min, std::ldexp(1.0, -27));
  EXPECT_EQ(stats->scale_max, std::ldexp(1.0, -22));
  EXPECT_EQ(stats->mse, 0);
  EXPECT_EQ(stats->codes[0x38], 128u);
}

TEST(Statistics, TheLargestOfEachBlock) {
  std::vector<float> values(2 * 64, 1.0F);
  values[3] = -8;
  values[127] = 5;
  const QuantStats stats = what_if(values, {2, 64}, "mxfp8", {.block_amax = true});
  EXPECT_EQ(stats.block_amax, (std::vector<float>{8, 1, 1, 5}));
  EXPECT_EQ(stats.block_rows, 2);
  EXPECT_EQ(stats.block_columns, 2);
}

TEST(Statistics, OfNarrowAndStridedTensors) {
  const auto values = normal_values(40 * 64);
  std::vector<uint16_t> narrow(values.size());
  std::vector<float> rounded(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    uint32_t bits;
    std::memcpy(&bits, &values[i], 4);
    narrow[i] = static_cast<uint16_t>(bits >> 16);
    bits &= 0xFFFF0000;
    std::memcpy(&rounded[i], &bits, 4);
  }
  const QuantFormat formats[] = {format_named("mxfp4")};
  const int64_t shape[] = {20, 64}, strides[] = {128, 1};
  const auto stats = quant_statistics({narrow.data(), DType::kBF16, shape, strides}, formats);
  ASSERT_TRUE(stats.ok());
  std::vector<float> every_other;
  for (size_t i = 0; i < 20; ++i)
    every_other.insert(every_other.end(), rounded.begin() + static_cast<int64_t>(i * 128),
                       rounded.begin() + static_cast<int64_t>(i * 128 + 64));
  EXPECT_EQ(stats->at(0).mse, what_if(every_other, {20, 64}, "mxfp4").mse);
}

TEST(Statistics, OfRotatedValuesThereAreNone) {
  const auto values = normal_values(64);
  const int64_t shape[] = {2, 32};
  const TensorView tensor{values.data(), DType::kF32, shape, {}};
  auto made = encode(tensor, format_named("nvfp4"));
  ASSERT_TRUE(made.ok());
  made->format.rotated = true;
  EXPECT_EQ(quant_statistics(tensor, made->group()).error().code, ErrorCode::kUnsupported);
}

TEST(Statistics, UnsignedCodesAroundTheirMiddle) {
  const auto values = wide_values(640);
  const int64_t shape[] = {10, 64};
  const TensorView tensor{values.data(), DType::kF32, shape, {}};
  QuantFormat format = format_named("int4_group32");
  const auto expected = quant_statistics(tensor, {&format, 1});
  format.element = QuantElement::kUInt4;
  format.zero_point = ZeroPoint::kMiddle;
  const auto found = quant_statistics(tensor, {&format, 1});
  const auto made = encode(tensor, format);
  const auto of_group = quant_statistics(tensor, made->group());
  ASSERT_TRUE(found.ok() && of_group.ok());
  EXPECT_EQ(found->at(0).mse, expected->at(0).mse);
  EXPECT_EQ(found->at(0).overflow, expected->at(0).overflow);
  EXPECT_EQ(of_group->overflow, expected->at(0).overflow);
}

TEST(Statistics, ShapesMustAgree) {
  MadeGroup made{.format = format_named("fp8"), .shape = {2, 3}};
  made.payload.resize(6);
  made.set_scales({1});
  made.scale_shape = {1};
  const std::vector<float> values(6);
  const int64_t other[] = {3, 2};
  EXPECT_FALSE(quant_statistics({values.data(), DType::kF32, other, {}}, made.group()).ok());
}

}  // namespace
}  // namespace ttap
