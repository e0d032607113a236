// What groups decode to, against formulas in double.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/element.h"
#include "fresh_memory.h"
#include "made_group.h"
#include "not_finite.h"

namespace ttap {
namespace {

double e8m0(uint8_t code) { return code == 255 ? std::nan("") : std::pow(2.0, code - 127); }

TEST(Decode, AllE8M0ScalesWithAllE4M3Codes) {
  // A row per scale, and in it every code.
  MadeGroup made{.format = format_named("mxfp8_e4m3"), .shape = {256, 256}};
  made.scale_shape = {256, 8};
  for (int row = 0; row < 256; ++row) {
    for (int code = 0; code < 256; ++code) made.payload.push_back(static_cast<uint8_t>(code));
    made.scale.insert(made.scale.end(), 8, static_cast<uint8_t>(row));
  }
  const auto values = decoded(made.group());
  const auto doubles = decoded<double>(made.group(), DType::kF64);
  for (size_t row = 0; row < 256; ++row) {
    for (size_t code = 0; code < 256; ++code) {
      const double element = value_of_code(QuantElement::kE4M3, static_cast<uint8_t>(code));
      const double expected = element * e8m0(static_cast<uint8_t>(row));
      const float value = values[256 * row + code];
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(value)) << row << ' ' << code;
      } else {
        ASSERT_EQ(value, static_cast<float>(expected)) << row << ' ' << code;
        ASSERT_EQ(doubles[256 * row + code], expected);
      }
    }
  }
}

TEST(Decode, EveryOtherMxFormatFollowsTheFormula) {
  for (const char* name : {"mxfp8_e5m2", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp4"}) {
    MadeGroup made{.format = format_named(name), .shape = {10, 96}};
    made.payload = random_bytes(made.format.packing == QuantPacking::kNone ? 960 : 480, 1);
    made.scale = random_bytes(30, 2);
    made.scale_shape = {10, 3};
    const auto values = decoded(made.group());
    for (size_t i = 0; i < values.size(); ++i) {
      const uint8_t byte = made.format.packing == QuantPacking::kNone ? made.payload[i] : made.payload[i / 2];
      const auto code = static_cast<uint8_t>(made.format.packing == QuantPacking::kNone ? byte
                                             : i % 2 == 0                               ? byte & 15
                                                                                        : byte >> 4);
      const double expected = value_of_code(made.format.element, code) * e8m0(made.scale[i / 96 * 3 + i % 96 / 32]);
      EXPECT_TRUE(std::isnan(expected) ? std::isnan(values[i]) : values[i] == static_cast<float>(expected)) << name;
    }
  }
}

TEST(Decode, WritesLargeTensorsToLargePages) {
  if (!kernel_has_large_pages()) GTEST_SKIP() << "a kernel without large pages";
  const FreshMemory memory;
  MadeGroup made{.format = format_named("int8"), .shape = {1024, FreshMemory::kSize / 4096}};
  made.payload.resize(FreshMemory::kSize / 4);
  made.set_scales(std::vector<float>(1024, 1.0F));
  made.scale_shape = {1024, 1};
  ASSERT_TRUE(decode(made.group(), DType::kF32, memory.data()).ok());
  EXPECT_TRUE(large_pages_asked_for(memory.data() + FreshMemory::kSize / 2));
}

MadeGroup random_nvfp4(int64_t rows, int64_t columns) {
  MadeGroup made{.format = format_named("nvfp4"), .shape = {rows, columns}};
  made.payload = random_bytes(static_cast<size_t>(rows * columns / 2), 1);
  made.scale = random_bytes(static_cast<size_t>(rows * columns / 16), 2);
  for (uint8_t& scale : made.scale) scale &= 0x7F;
  made.scale_shape = {rows, columns / 16};
  made.global = {0.3F};
  return made;
}

float element_of(const MadeGroup& made, size_t i) {
  return f32_of_e2m1fn(static_cast<uint8_t>(i % 2 == 0 ? made.payload[i / 2] : made.payload[i / 2] >> 4));
}

TEST(Decode, Nvfp4MultipliesInTheOrderOfItsLibrary) {
  auto made = random_nvfp4(100, 80);
  const float constant = 1.0F / (6.0F * 448.0F);
  for (const GlobalScale kind : {GlobalScale::kNone, GlobalScale::kFactor, GlobalScale::kDivisor, GlobalScale::kAmax}) {
    made.format.global = kind;
    const auto values = decoded(made.group());
    for (size_t i = 0; i < values.size(); ++i) {
      const float own = f32_of_e4m3fn(made.scale[i / 16]);
      const float scale = kind == GlobalScale::kNone      ? own
                          : kind == GlobalScale::kFactor  ? made.global[0] * own
                          : kind == GlobalScale::kDivisor ? own / made.global[0]
                                                          : own * made.global[0] * constant;
      const float expected = element_of(made, i) * scale;
      ASSERT_TRUE(values[i] == expected || (std::isnan(values[i]) && std::isnan(expected))) << i;
    }
  }
}

TEST(Decode, AGlobalScalePerRow) {
  auto made = random_nvfp4(6, 32);
  made.format.global = GlobalScale::kAmax;
  made.global = {1, 2, 4, 8, 16, 0};
  const auto values = decoded(made.group());
  for (size_t i = 0; i < values.size(); ++i) {
    const float scale = f32_of_e4m3fn(made.scale[i / 16]) * made.global[i / 32] * (1.0F / 2688.0F);
    const float expected = element_of(made, i) * scale;
    EXPECT_TRUE(values[i] == expected || (std::isnan(values[i]) && std::isnan(expected))) << i;
  }
}

TEST(Decode, ByteZeroIsAScaleLikeAnother) {
  MadeGroup made{.format = format_named("mxfp8_e4m3"), .shape = {1, 64}};
  made.payload.assign(64, 0x38);  // 1.0
  made.scale = {0, 255};
  made.scale_shape = {1, 2};
  const auto values = decoded(made.group());
  EXPECT_EQ(values[0], std::ldexp(1.0F, -127));
  EXPECT_TRUE(std::isnan(values[32]));
  // As E4M3 it is zero, and 0x7F is NaN.
  auto fp4 = random_nvfp4(1, 32);
  fp4.payload.assign(16, 0x77);
  fp4.scale = {0, 0x7F};
  EXPECT_EQ(decoded(fp4.group())[0], 0);
  EXPECT_TRUE(std::isnan(decoded(fp4.group())[16]));
}

TEST(Decode, Fp8ByTensorRowAndBlock) {
  for (const char* name :
       {"fp8_e4m3", "fp8_e5m2_row", "fp8_e4m3fnuz_row", "fp8_e5m2fnuz", "fp8_block_1x128", "fp8_block_128x128"}) {
    MadeGroup made{.format = format_named(name), .shape = {2, 150, 140}};
    made.payload = random_bytes(300 * 140, 9);
    const int64_t height = made.format.block_rows == 0 ? 300 : made.format.block_rows;
    const int64_t width = made.format.block_columns == 0 ? 140 : made.format.block_columns;
    made.scale_shape = {(300 + height - 1) / height, (140 + width - 1) / width};
    const auto scales = normal_values(count_of(made.scale_shape), 4);
    made.set_scales(scales);
    const auto values = decoded(made.group());
    const auto doubles = decoded<double>(made.group(), DType::kF64);
    for (int64_t row = 0; row < 300; ++row) {
      for (int64_t column = 0; column < 140; ++column) {
        const auto i = static_cast<size_t>(row * 140 + column);
        const float scale = scales[static_cast<size_t>(row / height * made.scale_shape[1] + column / width)];
        const float element = value_of_code(made.format.element, made.payload[i]);
        ASSERT_TRUE(values[i] == element * scale || std::isnan(element)) << name << i;
        ASSERT_TRUE(doubles[i] == double{element} * scale || std::isnan(element)) << name << i;
      }
    }
  }
}

TEST(Decode, AScaleThatDivides) {
  MadeGroup made{.format = format_named("fp8_e4m3"), .shape = {2, 3}};
  made.format.scale_divides = true;
  made.payload.assign(6, 0x38);
  made.set_scales({3});
  made.scale_shape = {};
  EXPECT_EQ(decoded(made.group()), std::vector<float>(6, 1.0F / 3.0F));
}

TEST(Decode, IntegersWithZeroPoints) {
  MadeGroup made{.format = format_named("int4_group3_asym"), .shape = {2, 5}};
  made.payload = {0x10, 0x32, 0x04, 0x8F, 0x76, 0x05};  // 0 1 2 3 4, then −1 −8 6 7 5
  made.set_scales({0.5, 2, 1, 10});
  made.scale_shape = {2, 2};
  made.zero_point = {0, 1, -8, 7};
  const std::vector<float> expected = {0, 0.5, 1, 4, 6, 7, 0, 14, 0, -20};
  EXPECT_EQ(decoded(made.group()), expected);
  made.format.packing = QuantPacking::kHighFirst;
  made.payload = {0x01, 0x23, 0x40, 0xF8, 0x67, 0x50};
  EXPECT_EQ(decoded(made.group()), expected);
}

TEST(Decode, ZeroPointsThatAreValues) {
  MadeGroup made{.format = format_named("int4_channel"), .shape = {1, 4}};
  made.format.element = QuantElement::kUInt4;
  made.format.zero_point = ZeroPoint::kValue;
  made.payload = {0x80, 0xF9};  // 0 8 9 15
  made.set_scales({0.25});
  made.scale_shape = {1, 1};
  made.zero_point = {3};
  EXPECT_EQ(decoded(made.group()), (std::vector<float>{1, 3, 3.25, 4.75}));
}

TEST(Decode, UnsignedCodesAroundTheirMiddle) {
  // As packed into 32 bits by some libraries: the first code in the lowest bits, 8 meaning zero.
  const uint32_t word = 0xF9876540;
  const int64_t shape[] = {1, 8}, one[] = {1};
  const float scale = 0.5;
  QuantGroup group{.format = format_named("int4_channel"), .shape = shape};
  group.format.element = QuantElement::kUInt4;
  group.format.zero_point = ZeroPoint::kMiddle;
  group.payload = {&word, DType::kI32, one, {}};
  group.scale = TensorView{&scale, DType::kF32, one, {}};
  EXPECT_EQ(decoded(group), (std::vector<float>{-4, -2, -1.5, -1, -0.5, 0, 0.5, 3.5}));
}

TEST(Decode, SixBitsPackedWithoutGaps) {
  MadeGroup plain{.format = format_named("mxfp6_e3m2"), .shape = {3, 34}};
  plain.payload = random_bytes(102, 3);
  for (uint8_t& code : plain.payload) code &= 0x3F;
  plain.scale = random_bytes(6, 4);
  plain.scale_shape = {3, 2};
  MadeGroup packed = plain;
  packed.format.packing = QuantPacking::kLowFirst;
  packed.payload.assign(3 * 26, 0);  // 34 codes are 204 bits
  for (size_t row = 0; row < 3; ++row)
    for (size_t bit = 0; bit < 34 * 6; ++bit)
      if ((plain.payload[row * 34 + bit / 6] >> (bit % 6) & 1) != 0)
        packed.payload[row * 26 + bit / 8] |= static_cast<uint8_t>(1 << (bit % 8));
  EXPECT_TRUE(same_values(decoded(packed.group()), decoded(plain.group())));
}

TEST(Decode, NarrowDtypesAreRoundedOnce) {
  MadeGroup made{.format = format_named("fp8_e4m3"), .shape = {1, 3}};
  made.payload = {0x38, 0x39, 0x7E};  // 1, 1.125, 448
  made.set_scales({1.00390625F});     // 1 + 2^-8: between two bf16
  made.scale_shape = {1};
  EXPECT_EQ(decoded<uint16_t>(made.group(), DType::kBF16), (std::vector<uint16_t>{0x3F80, 0x3F91, 0x43E1}));
  EXPECT_EQ(decoded<uint16_t>(made.group(), DType::kF16), (std::vector<uint16_t>{0x3C04, 0x3C84, 0x5F07}));
}

TEST(Decode, AStridedPayload) {
  // The codes of a 2 × 3 matrix, seen through a view that skips every other byte.
  const std::vector<uint8_t> bytes = {0x38, 0xFF, 0x40, 0xFF, 0x44, 0xFF, 0x48, 0xFF, 0x4A, 0xFF, 0x4C, 0xFF};
  const int64_t shape[] = {2, 3}, strides[] = {6, 2}, one[] = {1};
  const float scale = 1;
  QuantGroup group{.format = format_named("fp8_e4m3"), .shape = shape};
  group.payload = {bytes.data(), DType::kF8E4M3FN, shape, strides};
  group.scale = TensorView{&scale, DType::kF32, one, {}};
  EXPECT_EQ(decoded(group), (std::vector<float>{1, 2, 3, 4, 5, 6}));
}

TEST(Decode, NothingAndOneValue) {
  MadeGroup made{.format = format_named("mxfp8_e4m3"), .shape = {0, 64}};
  made.scale_shape = {0, 2};
  EXPECT_TRUE(decoded(made.group()).empty());
  MadeGroup scalar{.format = format_named("fp8_e4m3"), .shape = {}};
  scalar.payload = {0x40};
  scalar.set_scales({4});
  scalar.scale_shape = {};
  EXPECT_EQ(decoded(scalar.group()), std::vector<float>{8});
}

TEST(Decode, OnlyToFloats) {
  auto made = random_nvfp4(1, 16);
  std::vector<float> values(16);
  EXPECT_FALSE(decode(made.group(), DType::kI32, values.data()).ok());
}

TEST(DecodeScales, HaveTheGlobalScaleTakenIn) {
  auto made = random_nvfp4(2, 32);
  made.scale = {0x38, 0x40, 0x7F, 0x00};
  const auto scales = decode_scales(made.group());
  ASSERT_TRUE(scales.ok());
  EXPECT_EQ(scales->rows, 2);
  EXPECT_EQ(scales->columns, 2);
  EXPECT_TRUE(same_values(scales->values, {0.3F, 0.6F, kNan, 0.0F}));
}

}  // namespace
}  // namespace ttap
