// Tensors without values. Their other length may be any number, as a file may say what it likes.
#include <gtest/gtest.h>

#include "made_group.h"

namespace ttap {
namespace {

constexpr int64_t kEndless = int64_t{1} << 59;

const std::vector<std::vector<int64_t>> kEmptyShapes = {{0, 64}, {64, 0}, {kEndless, 0}, {0, kEndless}, {3, 0, 64}};

// What a library makes of no values: a scale, a global scale and a zero point for the whole tensor.
MadeGroup empty_group(const std::string& name, const std::vector<int64_t>& shape) {
  MadeGroup made{.format = format_named(name), .shape = shape};
  made.set_scales({1});
  if (made.format.scale_type != ScaleType::kF32) made.scale.resize(1);
  made.scale_shape = {1};
  if (made.format.global != GlobalScale::kNone) made.global = {1};
  if (made.format.zero_point != ZeroPoint::kNone) made.zero_point = {0};
  return made;
}

TEST(Empty, DecodesToNothingWhateverScalesThereAre) {
  for (const std::string name : {"fp8", "fp8_row", "fp8_block_128x128", "mxfp8", "nvfp4", "nvfp4_row", "int8_asym"})
    for (const auto& shape : kEmptyShapes)
      for (const bool transposed : {false, true}) {
        SCOPED_TRACE(name + testing::PrintToString(shape) + (transposed ? " transposed" : ""));
        MadeGroup made = empty_group(name, shape);
        made.format.stored_transposed = transposed;
        const Status sound = validate(made.group());
        ASSERT_TRUE(sound.ok()) << sound.error().describe();
        EXPECT_TRUE(decode(made.group(), DType::kF32, nullptr).ok());
        const auto scales = decode_scales(made.group());
        ASSERT_TRUE(scales.ok());
        EXPECT_TRUE(scales->values.empty());
        const auto stats = quant_statistics({nullptr, DType::kF32, shape, {}}, made.group());
        ASSERT_TRUE(stats.ok()) << stats.error().describe();
        EXPECT_EQ(stats->count, 0u);
      }
}

TEST(Empty, StillHasPartsOfTheirKind) {
  MadeGroup made = empty_group("fp8", {0, 64});
  made.payload = {1};
  EXPECT_FALSE(validate(made.group()).ok()) << "codes of no values";
  made = empty_group("nvfp4", {0, 64});
  made.global.clear();
  EXPECT_FALSE(validate(made.group()).ok()) << "the format has a global scale";
  made = empty_group("fp8", {0, 64});
  QuantGroup group = made.group();
  group.scale->dtype = DType::kF16;
  EXPECT_FALSE(validate(group).ok()) << "scales of another dtype";
}

TEST(Empty, NoRowsHaveNoGlobalScales) {
  MadeGroup made = empty_group("nvfp4_row", {0, 64});
  QuantGroup group = made.group();
  const std::vector<int64_t> none = {0};
  group.global = TensorView{nullptr, DType::kF32, none, {}};
  EXPECT_TRUE(decode(group, DType::kF32, nullptr).ok());
}

TEST(Empty, RecipesFindNothingInIt) {
  const std::vector<QuantFormat> recipes = {format_named("nvfp4"), format_named("int8")};
  for (const auto& shape : kEmptyShapes) {
    const auto stats = quant_statistics({nullptr, DType::kF32, shape, {}}, recipes);
    ASSERT_TRUE(stats.ok()) << stats.error().describe();
    ASSERT_EQ(stats->size(), 2u);
    EXPECT_EQ(stats->front().count, 0u);
    const auto made = encode({nullptr, DType::kF32, shape, {}}, recipes.front());
    ASSERT_TRUE(made.ok()) << made.error().describe();
    EXPECT_TRUE(validate(made->group()).ok());
  }
}

}  // namespace
}  // namespace ttap
