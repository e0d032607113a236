#include "analyze/compare/quant_picture.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace ttap {
namespace {

// Rows of blocks of 16 whose largest value is 6 · 2^block, so that the scales are powers of two.
std::vector<float> powers(int64_t rows, int64_t columns) {
  std::vector<float> values;
  for (int64_t i = 0; i < rows * columns; ++i)
    values.push_back(std::ldexp(static_cast<float>(i % 16 == 0 ? 6 : i % 2), static_cast<int>(i / 16 % 4)));
  return values;
}

uint64_t total(const std::vector<uint64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
}

TEST(QuantPicture, HasBlocksCodesAndScales) {
  const std::vector<int64_t> shape = {4, 32};
  std::vector<float> values = powers(4, 32);
  values[37] = 1.1F;
  const TensorView view{values.data(), DType::kF32, shape, {}};
  const auto picture = quant_picture(view, quant_format("mxfp4").value());
  ASSERT_TRUE(picture.ok());
  EXPECT_EQ(picture->block_rows, 1);
  EXPECT_EQ(picture->block_columns, 32);
  EXPECT_EQ(picture->scales.rows, 4u);
  EXPECT_EQ(picture->scales.columns, 1u);
  EXPECT_EQ(picture->codes.size(), 16u);
  EXPECT_EQ(total(picture->codes), 128u);
  EXPECT_EQ(picture->grid.rows, (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(picture->grid.columns, (std::vector<int64_t>{0, 1, 2, 31}));
  ASSERT_TRUE(picture->stats.has_value());
  EXPECT_EQ(picture->grid.before.size(), 16u);
  EXPECT_EQ(picture->grid.before[0], 6);
  ASSERT_EQ(picture->worst.size(), 1u);
  EXPECT_EQ(picture->worst[0].element, 37u);
}

TEST(QuantPicture, AnExactTensorHasNothingWorst) {
  const std::vector<int64_t> shape = {4, 64};
  const std::vector<float> values = powers(4, 64);
  const TensorView view{values.data(), DType::kF32, shape, {}};
  const auto encoded = encode(view, quant_format("nvfp4").value(), {.global = 1.0F});
  ASSERT_TRUE(encoded.ok());
  const auto picture = quant_picture(encoded->group(), &view);
  ASSERT_TRUE(picture.ok());
  EXPECT_TRUE(picture->worst.empty());
  EXPECT_EQ(picture->stats->mse, 0);
  EXPECT_EQ(picture->globals, std::vector<double>{1});
  EXPECT_EQ(picture->scales.cells, (std::vector<float>{1, 2, 4, 8, 1, 2, 4, 8, 1, 2, 4, 8, 1, 2, 4, 8}));
  // Each value stands beside the scale of its block.
  ASSERT_EQ(picture->grid.columns, (std::vector<int64_t>{0, 1, 2, 15, 16, 17, 18, 31}));
  EXPECT_EQ(picture->grid.scales[3], 1);
  EXPECT_EQ(picture->grid.scales[4], 2);
  EXPECT_EQ(picture->grid.values[4], 12);
}

TEST(QuantPicture, WithoutATwinThereIsNoError) {
  const std::vector<int64_t> shape = {2, 32};
  const std::vector<float> values = powers(2, 32);
  const auto encoded = encode({values.data(), DType::kF32, shape, {}}, quant_format("nvfp4").value());
  const auto picture = quant_picture(encoded->group(), nullptr);
  ASSERT_TRUE(picture.ok());
  EXPECT_FALSE(picture->stats.has_value());
  EXPECT_TRUE(picture->grid.before.empty());
  EXPECT_EQ(total(picture->codes), 64u);
}

TEST(QuantPicture, WhatIsStoredTransposedIsToldAsTheTensorIs) {
  const std::vector<int64_t> shape = {32, 4};
  std::vector<float> values(128);
  for (size_t i = 0; i < 128; ++i) values[i] = std::ldexp(1.0F, static_cast<int>(i % 4));  // by column
  const TensorView view{values.data(), DType::kF32, shape, {}};
  QuantFormat format = quant_format("nvfp4").value();
  format.stored_transposed = true;
  const auto encoded = encode(view, format);
  ASSERT_TRUE(encoded.ok());
  const auto picture = quant_picture(encoded->group(), &view);
  ASSERT_TRUE(picture.ok());
  EXPECT_EQ(picture->rows, 32);
  EXPECT_EQ(picture->columns, 4);
  EXPECT_EQ(picture->block_rows, 16);
  EXPECT_EQ(picture->block_columns, 1);
  EXPECT_EQ(picture->scales.rows, 2u);
  EXPECT_EQ(picture->scales.columns, 4u);
  EXPECT_EQ(picture->grid.columns, (std::vector<int64_t>{0, 1, 2, 3}));
  for (size_t i = 0; i < picture->grid.values.size(); ++i) {
    EXPECT_NEAR(picture->grid.values[i], picture->grid.before[i], 0.05 * picture->grid.before[i]);
    EXPECT_NEAR(picture->grid.scales[i], picture->grid.values[i] / 6, 1e-6);
  }
}

TEST(QuantPicture, ARotatedGroupShowsItsCodesAndHasNoTwin) {
  const std::vector<int64_t> shape = {2, 32};
  const std::vector<float> values = powers(2, 32);
  const TensorView view{values.data(), DType::kF32, shape, {}};
  auto encoded = encode(view, quant_format("nvfp4").value());
  encoded->format.rotated = true;
  const auto picture = quant_picture(encoded->group(), nullptr);
  ASSERT_TRUE(picture.ok());
  EXPECT_EQ(total(picture->codes), 64u);
  EXPECT_FALSE(quant_picture(encoded->group(), &view).ok());
}

TEST(QuantPicture, LargeScalesAreThinnedAndKeepTheLargest) {
  const std::vector<int64_t> shape = {1000, 16};
  std::vector<float> values(16000, 1);
  values[999 * 16] = 600;
  const auto picture = quant_picture({values.data(), DType::kF32, shape, {}}, quant_format("nvfp4").value());
  ASSERT_TRUE(picture.ok());
  EXPECT_EQ(picture->scales.row_step, 8u);
  EXPECT_EQ(picture->scales.cells_down, 125u);
  EXPECT_NEAR(picture->scales.cells.back(), 100, 0.1);
  EXPECT_LT(picture->scales.cells.front(), 1);
}

TEST(QuantPicture, BeginsWhereItIsAsked) {
  const std::vector<int64_t> shape = {8, 64};
  const std::vector<float> values = powers(8, 64);
  const auto picture = quant_picture({values.data(), DType::kF32, shape, {}}, quant_format("nvfp4").value(),
                                     {.first_row = 6, .first_column = 40, .worst = 0});
  ASSERT_TRUE(picture.ok());
  EXPECT_EQ(picture->grid.rows, (std::vector<int64_t>{6, 7}));
  EXPECT_EQ(picture->grid.columns, (std::vector<int64_t>{40, 41, 42, 47, 48, 49, 50, 63}));
  EXPECT_TRUE(picture->worst.empty());
}

TEST(QuantPicture, NothingIsInAnEmptyTensor) {
  const std::vector<int64_t> shape = {0, 32};
  const auto picture = quant_picture({nullptr, DType::kF32, shape, {}}, quant_format("nvfp4").value());
  ASSERT_TRUE(picture.ok());
  EXPECT_TRUE(picture->grid.values.empty());
  EXPECT_TRUE(picture->scales.cells.empty());
}

TEST(CodeBins, AllSixteenCodesOfFourBitsByValue) {
  std::vector<uint64_t> counts(16);
  std::iota(counts.begin(), counts.end(), 100u);
  const auto bins = code_bins(QuantElement::kE2M1, counts);
  ASSERT_EQ(bins.size(), 16u);
  EXPECT_EQ(bins.front().low, -6);
  EXPECT_EQ(bins.front().codes, "0xf");
  EXPECT_EQ(bins.front().count, 115u);
  EXPECT_TRUE(std::signbit(bins[7].low));
  EXPECT_EQ(bins[7].codes, "0x8");
  EXPECT_EQ(bins[8].codes, "0x0");
  EXPECT_EQ(bins.back().low, 6);
}

TEST(CodeBins, EightBitsByExponentBothSignsTogether) {
  const auto bins = code_bins(QuantElement::kE4M3, std::vector<uint64_t>(256, 1));
  ASSERT_EQ(bins.size(), 18u);  // zero, subnormals, fifteen exponents, NaN
  EXPECT_EQ(bins[0].count, 2u);
  EXPECT_EQ(bins[0].high, 0);
  EXPECT_EQ(bins[1].codes, "0x01-0x07");
  EXPECT_EQ(bins[1].count, 14u);
  EXPECT_EQ(bins[16].high, 448);
  EXPECT_EQ(bins[16].count, 14u);
  EXPECT_TRUE(std::isnan(bins[17].low));
  EXPECT_EQ(bins[17].codes, "0x7f");
  uint64_t sum = 0;
  for (const CodeBin& bin : bins) sum += bin.count;
  EXPECT_EQ(sum, 256u);
}

TEST(QuantPicture, OfNothingIsEmptyWhateverItsOtherLength) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{int64_t{1} << 59, 0}, {0, int64_t{1} << 59}}) {
    const float one = 1;
    const std::vector<int64_t> no_codes = {0};
    QuantGroup group{
        .format = *quant_format("fp8_row"), .shape = shape, .payload = {nullptr, DType::kU8, no_codes, {}}};
    group.scale = TensorView{&one, DType::kF32, {}, {}};
    const auto picture = quant_picture(group, nullptr);
    ASSERT_TRUE(picture.ok()) << picture.error().describe();
    EXPECT_TRUE(picture->scales.cells.empty());
    EXPECT_TRUE(picture->grid.values.empty());
  }
}

TEST(CodeBins, AFormatWithoutMinusZeroHasItsNanThere) {
  const auto bins = code_bins(QuantElement::kE4M3Fnuz, std::vector<uint64_t>(256, 1));
  EXPECT_EQ(bins.front().count, 1u);
  EXPECT_EQ(bins.back().codes, "0x80");
}

TEST(CodeBins, IntegersOfEightBitsInSteps) {
  const auto bins = code_bins(QuantElement::kInt8, std::vector<uint64_t>(256, 1));
  ASSERT_EQ(bins.size(), 16u);
  EXPECT_EQ(bins.front().low, -128);
  EXPECT_EQ(bins.front().high, -113);
  EXPECT_EQ(bins.front().codes, "0x80-0x8f");
  EXPECT_EQ(bins.back().high, 127);
  EXPECT_EQ(bins.front().count, 16u);
}

}  // namespace
}  // namespace ttap
