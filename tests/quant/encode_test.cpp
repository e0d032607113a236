// What a what-if makes of a tensor. Bit for bit against torchao: tests/python/test_quant_torchao.py.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/element.h"
#include "made_group.h"

namespace ttap {
namespace {

EncodedTensor encoded(const std::vector<float>& values, const std::vector<int64_t>& shape, const QuantFormat& format,
                      const EncodeOptions& options = {}) {
  auto result = encode({values.data(), DType::kF32, shape, {}}, format, options);
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().describe());
  return std::move(*result);
}

const std::vector<std::string>& recipes() {
  static const std::vector<std::string> names = {
      "fp8_e4m3",
      "fp8_e5m2_row",
      "fp8_e4m3fnuz",
      "fp8_e5m2fnuz_row",
      "fp8_block_1x128",
      "fp8_block_128x128",
      "mxfp8",
      "mxfp8_e5m2",
      "mxfp6_e2m3",
      "mxfp6_e3m2",
      "mxfp4",
      "nvfp4",
      "nvfp4_2d",
      "nvfp4_row",
      "int8",
      "int8_tensor",
      "int8_group32_asym",
      "int4",
      "int4_asym",
      "int4_group8",
  };
  return names;
}

TEST(Encode, ValuesAreNearWhatTheyWere) {
  const std::vector<int64_t> shape = {100, 80};
  const auto values = normal_values(8000);
  for (const std::string& name : recipes()) {
    const auto made = encoded(values, shape, format_named(name));
    const auto back = decoded(made.group());
    double error = 0, squares = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      error += (values[i] - back[i]) * (values[i] - back[i]);
      squares += values[i] * values[i];
    }
    const int bits = bits_of(made.format.element);
    EXPECT_LT(std::sqrt(error / squares), bits == 8 ? 0.06 : bits == 6 ? 0.08 : 0.2) << name;
    EXPECT_GT(error, 0) << name;
  }
}

TEST(Encode, WhatWasEncodedOnceStaysAsItIs) {
  // Decoded values are codes' values, so encoding them again with the same scales loses nothing.
  const std::vector<int64_t> shape = {64, 128};
  for (const char* name : {"mxfp8", "mxfp6_e2m3", "mxfp4"}) {
    const auto once = decoded(encoded(normal_values(64 * 128), shape, format_named(name)).group());
    const auto twice = decoded(encoded(once, shape, format_named(name)).group());
    EXPECT_TRUE(same_values(twice, once)) << name;
  }
}

TEST(Encode, EveryLayoutDecodesAlike) {
  const std::vector<int64_t> shape = {100, 96};
  const auto values = normal_values(9600);
  for (const char* name : {"mxfp8", "mxfp4", "nvfp4", "nvfp4_2d"}) {
    for (const bool transposed : {false, true}) {
      QuantFormat format = format_named(name);
      format.stored_transposed = transposed;
      const auto expected = decoded(encoded(values, shape, format).group());
      for (const ScaleLayout layout : {ScaleLayout::kPadded, ScaleLayout::kSwizzled}) {
        format.scale_layout = layout;
        EXPECT_TRUE(same_values(decoded(encoded(values, shape, format).group()), expected)) << name;
      }
      format.scale_layout = ScaleLayout::kCompact;
      format.scale_transposed = true;
      EXPECT_TRUE(same_values(decoded(encoded(values, shape, format).group()), expected)) << name;
    }
  }
}

TEST(Encode, ByColumnsIsTheTransposedByRows) {
  const auto values = normal_values(64 * 96);
  std::vector<float> turned(values.size());
  for (size_t i = 0; i < 64; ++i)
    for (size_t j = 0; j < 96; ++j) turned[j * 64 + i] = values[i * 96 + j];
  const QuantFormat rows = format_named("mxfp8");
  QuantFormat columns = rows, stored = rows;
  columns.block_rows = 32;
  columns.block_columns = 1;
  stored.stored_transposed = true;
  const auto expected = decoded(encoded(turned, {96, 64}, rows).group());
  const auto by_columns = decoded(encoded(values, {64, 96}, columns).group());
  const auto by_storage = decoded(encoded(values, {64, 96}, stored).group());
  for (size_t i = 0; i < 64; ++i)
    for (size_t j = 0; j < 96; ++j) {
      ASSERT_EQ(by_columns[i * 96 + j], expected[j * 64 + i]);
      ASSERT_EQ(by_storage[i * 96 + j], expected[j * 64 + i]);
    }
}

TEST(Encode, UnsignedCodesAroundTheirMiddle) {
  const auto values = normal_values(640);
  QuantFormat format = format_named("int4_group32");
  const auto expected = decoded(encoded(values, {10, 64}, format).group());
  format.element = QuantElement::kUInt4;
  format.zero_point = ZeroPoint::kMiddle;
  EXPECT_TRUE(same_values(decoded(encoded(values, {10, 64}, format).group()), expected));
}

TEST(Encode, ZerosStayZeros) {
  const std::vector<int64_t> shape = {20, 64};
  for (const std::string& name : recipes()) {
    const auto back = decoded(encoded(std::vector<float>(20 * 64, 0.0F), shape, format_named(name)).group());
    EXPECT_EQ(back, std::vector<float>(20 * 64, 0.0F)) << name;
  }
}

TEST(Encode, ABlockOfZerosAmongOthers) {
  auto values = normal_values(16 * 128);
  std::fill(values.begin() + 128, values.begin() + 256, 0.0F);  // a row
  for (const std::string& name : recipes()) {
    const auto back = decoded(encoded(values, {16, 128}, format_named(name)).group());
    for (size_t i = 128; i < 256; ++i) ASSERT_EQ(back[i], 0) << name;
    for (const float value : back) ASSERT_TRUE(std::isfinite(value)) << name;
  }
}

TEST(Encode, RulesOfMxScales) {
  // The largest of the block is 500: with a scale of 1 it saturates at 448.
  std::vector<float> values(32, 1.0F);
  values[0] = 500;
  const std::vector<int64_t> shape = {1, 32};
  const struct {
    MxScaleRule rule;
    uint8_t scale;
    float largest;
  } cases[] = {{MxScaleRule::kFloor, 127, 448},
               {MxScaleRule::kCeil, 128, 512},
               {MxScaleRule::kEven, 128, 512},
               {MxScaleRule::kRoundUp, 128, 512}};
  for (const auto& [rule, scale, largest] : cases) {
    const auto made = encoded(values, shape, format_named("mxfp8"), {.mx_rule = rule});
    EXPECT_EQ(static_cast<uint8_t>(made.scale[0]), scale);
    EXPECT_EQ(decoded(made.group())[0], largest);
  }
}

TEST(Encode, NotFiniteValues) {
  auto values = normal_values(2 * 64);
  values[3] = std::numeric_limits<float>::quiet_NaN();
  const auto mx = decoded(encoded(values, {2, 64}, format_named("mxfp8")).group());
  EXPECT_TRUE(std::isnan(mx[0]));  // the whole block
  EXPECT_TRUE(std::isfinite(mx[32]));
  EXPECT_TRUE(std::isnan(decoded(encoded(values, {2, 64}, format_named("fp8_row")).group())[3]));
  EXPECT_TRUE(std::isnan(decoded(encoded(values, {2, 64}, format_named("int8")).group())[3]));
}

// There is no zero point for such a block; what is stored is a code all the same.
TEST(Encode, InfiniteValuesOfAffineBlocks) {
  std::vector<float> values = normal_values(64);
  values[3] = -std::numeric_limits<float>::infinity();
  const auto made = encoded(values, {2, 32}, format_named("int8_group32_asym"));
  ASSERT_EQ(made.zero_point.size(), 2u);
  EXPECT_EQ(made.zero_point[0], 0);
  const auto same = encoded({values.begin() + 32, values.end()}, {1, 32}, format_named("int8_group32_asym"));
  EXPECT_EQ(made.zero_point[1], same.zero_point[0]) << "the other block is what it is alone";
}

TEST(Encode, AKnownGlobalScaleIsTaken) {
  const auto values = normal_values(32);
  const auto made = encoded(values, {1, 32}, format_named("nvfp4"), {.global = 0.001F});
  EXPECT_EQ(made.global, std::vector<float>{0.001F});
  const auto from_amax = encoded(values, {1, 32}, format_named("nvfp4"), {.amax = 26.88F});
  EXPECT_EQ(from_amax.global, std::vector<float>{26.88F / 2688.0F});
}

TEST(Encode, RefusesWhatItCannot) {
  const std::vector<double> doubles(4);
  const int64_t shape[] = {4};
  EXPECT_EQ(encode({doubles.data(), DType::kF64, shape, {}}, format_named("fp8")).error().code,
            ErrorCode::kUnsupported);
  QuantFormat format = format_named("int8");
  format.element = QuantElement::kUInt8;
  const std::vector<float> floats(4);
  EXPECT_EQ(encode({floats.data(), DType::kF32, shape, {}}, format).error().code, ErrorCode::kUnsupported);
}

TEST(Encode, Nothing) {
  const auto made = encoded({}, {0, 64}, format_named("mxfp8"));
  EXPECT_TRUE(made.payload.empty());
}

}  // namespace
}  // namespace ttap
