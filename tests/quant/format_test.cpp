// Names of formats, and groups that do not fit together.
#include <gtest/gtest.h>

#include "made_group.h"
#include "quant/format_words.h"

namespace ttap {
namespace {

TEST(Format, EveryBaseHasAName) {
  for (const std::string& name : quant_format_names()) EXPECT_EQ(format_named(name).name, name);
}

TEST(Format, NamesSayWhatDiffers) {
  EXPECT_EQ(format_named("fp8").name, "fp8_e4m3");
  EXPECT_EQ(format_named("mxfp8").element, QuantElement::kE4M3);
  EXPECT_EQ(format_named("fp8_e5m2_row").block_rows, 1);
  EXPECT_EQ(format_named("fp8_e5m2_row").block_columns, 0);
  EXPECT_EQ(format_named("fp8_block_128x128").block_rows, 128);
  EXPECT_EQ(format_named("nvfp4").block_columns, 16);
  EXPECT_EQ(format_named("nvfp4_2d").shared_rows, 16);
  EXPECT_TRUE(format_named("nvfp4_row").global_per_row);
  EXPECT_EQ(format_named("int4_group32_asym").block_columns, 32);
  EXPECT_EQ(format_named("int4_group32_asym").zero_point, ZeroPoint::kInteger);
  EXPECT_EQ(format_named("int8_tensor").block_rows, 0);
  EXPECT_EQ(format_named("int4").packing, QuantPacking::kLowFirst);
}

TEST(Format, AnUnknownNameListsWhatThereIs) {
  const auto result = quant_format("fp5");
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().describe().find("nvfp4"), std::string::npos);
  EXPECT_FALSE(quant_format("mxfp8_row").ok());
  EXPECT_FALSE(quant_format("int4_group").ok());
  EXPECT_FALSE(quant_format("int4_group0").ok());
  EXPECT_FALSE(quant_format("nvfp44").ok());
  EXPECT_FALSE(quant_format("").ok());
}

TEST(Format, WordsThereAndBack) {
  for (int i = 0; i <= static_cast<int>(QuantElement::kUInt4); ++i) {
    const auto element = static_cast<QuantElement>(i);
    EXPECT_EQ(*from_word<QuantElement>(word_for(element)), element);
  }
  EXPECT_EQ(*from_word<ScaleLayout>("swizzled"), ScaleLayout::kSwizzled);
  EXPECT_EQ(*from_word<MxScaleRule>("rceil"), MxScaleRule::kRoundUp);
  EXPECT_NE(from_word<ZeroPoint>("float").error().describe().find("none, integer, value, middle"), std::string::npos);
}

TEST(FormatJson, EveryBaseThereAndBack) {
  for (const std::string& name : quant_format_names()) {
    const std::string text = to_json(format_named(name));
    const auto read = quant_format_from_json(text);
    ASSERT_TRUE(read.ok()) << read.error().describe();
    EXPECT_EQ(to_json(*read), text);
  }
}

TEST(FormatJson, KeepsEveryField) {
  const QuantFormat format{.name = "mine",
                           .element = QuantElement::kUInt4,
                           .packing = QuantPacking::kHighFirst,
                           .scale_type = ScaleType::kE8M0,
                           .block_rows = 3,
                           .block_columns = 5,
                           .shared_rows = 16,
                           .scale_layout = ScaleLayout::kSwizzled,
                           .stored_transposed = true,
                           .scale_transposed = true,
                           .scale_divides = true,
                           .global = GlobalScale::kAmax,
                           .global_per_row = true,
                           .scale_maximum = 256,
                           .zero_point = ZeroPoint::kValue,
                           .rotated = true,
                           .source = "somebody"};
  const auto read = quant_format_from_json(to_json(format));
  ASSERT_TRUE(read.ok()) << read.error().describe();
  EXPECT_EQ(read->name, format.name);
  EXPECT_EQ(read->element, format.element);
  EXPECT_EQ(read->packing, format.packing);
  EXPECT_EQ(read->scale_type, format.scale_type);
  EXPECT_EQ(read->block_rows, format.block_rows);
  EXPECT_EQ(read->block_columns, format.block_columns);
  EXPECT_EQ(read->shared_rows, format.shared_rows);
  EXPECT_EQ(read->scale_layout, format.scale_layout);
  EXPECT_EQ(read->stored_transposed, format.stored_transposed);
  EXPECT_EQ(read->scale_transposed, format.scale_transposed);
  EXPECT_EQ(read->scale_divides, format.scale_divides);
  EXPECT_EQ(read->global, format.global);
  EXPECT_EQ(read->global_per_row, format.global_per_row);
  EXPECT_EQ(read->scale_maximum, format.scale_maximum);
  EXPECT_EQ(read->zero_point, format.zero_point);
  EXPECT_EQ(read->rotated, format.rotated);
  EXPECT_EQ(read->source, format.source);
}

TEST(FormatJson, TakesWhatIsThereAndRefusesWhatCannotBe) {
  const auto read = quant_format_from_json(R"({"element": "int8", "colour": "blue"})");
  ASSERT_TRUE(read.ok()) << read.error().describe();
  EXPECT_EQ(read->element, QuantElement::kInt8);
  EXPECT_EQ(read->scale_maximum, 448);
  for (const char* text : {"", "7", "[]", R"({"element": "e9m9"})", R"({"element": 3})", R"({"block_rows": "all"})",
                           R"({"block_rows": 1.5})", R"({"block_rows": 18446744073709551615})", R"({"rotated": 1})",
                           R"({"scale_maximum": "448"})", R"({"scale_maximum": 1e39})", R"({"name": null})"}) {
    const auto bad = quant_format_from_json(text);
    ASSERT_FALSE(bad.ok()) << text;
    EXPECT_EQ(bad.error().code, ErrorCode::kInvalidArgument) << text;
  }
}

MadeGroup nvfp4_group() {
  MadeGroup made{.format = format_named("nvfp4"), .shape = {4, 32}};
  made.payload.resize(64);
  made.scale.resize(8);
  made.scale_shape = {4, 2};
  made.global = {1};
  return made;
}

std::string problem(MadeGroup made) {
  const Status status = validate(made.group());
  return status.ok() ? "" : status.error().describe();
}

TEST(Check, AWholeGroupPasses) { EXPECT_EQ(problem(nvfp4_group()), ""); }

TEST(Check, ThePayloadMustBeAsLongAsTheShape) {
  auto made = nvfp4_group();
  made.payload.resize(63);
  EXPECT_NE(problem(made).find("the payload has 63 bytes; 4 × 32 codes of 4 bits, packed have 64"), std::string::npos)
      << problem(made);
}

TEST(Check, TheScalesMustCoverTheGrid) {
  auto made = nvfp4_group();
  made.shape = {4, 64};
  made.payload.resize(128);
  EXPECT_NE(problem(made).find("scales of shape [4, 2] for 4 × 4 blocks of 1 × 16"), std::string::npos)
      << problem(made);
}

TEST(Check, SwizzledScalesMustReachFarEnough) {
  auto made = nvfp4_group();
  made.format.scale_layout = ScaleLayout::kSwizzled;
  EXPECT_NE(problem(made).find("8 swizzled scales, and 4 × 2 of them need 50"), std::string::npos) << problem(made);
}

TEST(Check, WhatTheFormatAsksForMustBeThere) {
  auto made = nvfp4_group();
  made.global.clear();
  EXPECT_NE(problem(made).find("has a global scale, and none was given"), std::string::npos);
  made = nvfp4_group();
  made.global = {1, 1, 1};
  EXPECT_NE(problem(made).find("3 global scales do not divide the 4 rows"), std::string::npos);
  MadeGroup integers{.format = format_named("int8_asym"), .shape = {2, 4}};
  integers.payload.resize(8);
  integers.set_scales({1, 1});
  integers.scale_shape = {2, 1};
  EXPECT_NE(problem(integers).find("needs its zero points"), std::string::npos);
  integers.zero_point = {1};
  EXPECT_NE(problem(integers).find("1 zero points for 2 × 1 blocks"), std::string::npos);
}

TEST(Check, DtypesMustFit) {
  auto made = nvfp4_group();
  QuantGroup group = made.group();
  group.scale->dtype = DType::kF8E8M0FNU;
  EXPECT_NE(validate(group).error().describe().find("scales of f8_e8m0fnu"), std::string::npos);
  group = made.group();
  group.payload.dtype = DType::kF8E4M3FN;
  EXPECT_NE(validate(group).error().describe().find("a payload of f8_e4m3fn"), std::string::npos);
}

TEST(Check, WhatCannotBeIsRefused) {
  auto made = nvfp4_group();
  made.format.block_rows = 16;
  made.format.scale_layout = ScaleLayout::kSwizzled;
  EXPECT_NE(problem(made).find("blocks of one row or of one column"), std::string::npos);
  made = nvfp4_group();
  made.format.element = QuantElement::kE4M3;
  EXPECT_NE(problem(made).find("eight bits are not packed"), std::string::npos);
  made = nvfp4_group();
  made.shape = {4, -32};
  EXPECT_NE(problem(made), "");
  for (const float largest : {0.0F, -1.0F, INFINITY, NAN}) {
    made = nvfp4_group();
    made.format.global = GlobalScale::kAmax;
    made.format.scale_maximum = largest;
    EXPECT_NE(problem(made).find("a largest scale of"), std::string::npos) << largest;
  }
}

}  // namespace
}  // namespace ttap
