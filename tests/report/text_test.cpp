#include "report/text/text.h"

#include <gtest/gtest.h>

#include <limits>

namespace ttap {
namespace {

TEST(Printable, EscapesWhatActsOnATerminal) {
  EXPECT_EQ(printable("a\nb\x1b[0m\x7F"), "a%0Ab%1B[0m%7F");
  EXPECT_EQ(printable("\xC2\x9B"
                      "31m"),
            "%C2%9B31m");                                           // CSI as a C1 control
  EXPECT_EQ(printable("\xE2\x80\xAE"), "%E2%80%AE");                // right-to-left override
  EXPECT_EQ(printable("\xFF\xC3"), "%FF%C3");                       // not UTF-8, cut short
  EXPECT_EQ(printable("\xC0\xAF\xED\xA0\x80"), "%C0%AF%ED%A0%80");  // overlong, surrogate
  EXPECT_EQ(printable("größe 模型"), "größe 模型");
}

TEST(Printable, ControlsInANameAreReadBackAsAKey) {
  const Key key{.name = "line\nbreak"};
  EXPECT_EQ(*parse_key(printable(to_string(key))), key);
}

TEST(DisplayWidth, CountsColumns) {
  EXPECT_EQ(display_width("größe"), 5u);
  EXPECT_EQ(display_width("模型"), 4u);
}

TEST(Shorten, KeepsBothEnds) {
  EXPECT_EQ(shorten("model.layers.0.o_proj", 12, false), "mode..o_proj");
  EXPECT_EQ(shorten("model.layers.0.o_proj", 12, true), "mode….o_proj");
  EXPECT_EQ(shorten("short", 12, true), "short");
  for (size_t width = 0; width < 12; ++width) {
    EXPECT_LE(display_width(shorten("模型模型模型模型", width, true)), std::max<size_t>(width, 1)) << width;
    EXPECT_LE(display_width(shorten("abcdefghijklmnop", width, false)), width) << width;
  }
}

TEST(BytesText, ChangesUnitBeforeFourDigits) {
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(bytes_text((uint64_t{1} << 20) - 1), "1.0 MiB");
  EXPECT_EQ(bytes_text(~uint64_t{0}), "16.0 EiB");
}

TEST(ShareText, NeverRoundsToNoneOrAll) {
  EXPECT_EQ(share_text(0, 5), "0 %");
  EXPECT_EQ(share_text(5, 5), "100 %");
  EXPECT_EQ(share_text(1, 1'000'000), "<0.01 %");
  EXPECT_EQ(share_text(999'999, 1'000'000), ">99.99 %");
  EXPECT_EQ(share_text(0, 0), "0 %");
}

TEST(StatisticText, PrintsIntegersOfIntegerTensorsWhole) {
  EXPECT_EQ(statistic_text(123456789, DType::kI32, 4), "123456789");
  EXPECT_EQ(statistic_text(123456789, DType::kF32, 4), "1.235e+08");
  EXPECT_EQ(statistic_text(std::numeric_limits<double>::quiet_NaN(), DType::kF32, 4), "-");
}

TEST(PlaceText, NamesThePartOfAnElement) {
  const int64_t shape[] = {2, 3};
  EXPECT_EQ(place_text({.element = 5}, DType::kF32, shape), "[1, 2]");
  EXPECT_EQ(place_text({.element = 0, .part = 1}, DType::kC64, shape), "[0, 0].imag");
  EXPECT_EQ(place_text({.element = 0, .part = 1}, DType::kF4E2M1FNx2, shape), "[0, 0].high");
}

}  // namespace
}  // namespace ttap
