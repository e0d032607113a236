#include "core/utf8.h"

#include <gtest/gtest.h>

namespace ttap {
namespace {

TEST(Utf8, DecodesEveryLength) {
  const auto code = [](std::string_view text) { return decode_utf8(text).valid ? decode_utf8(text).code : 0; };
  EXPECT_EQ(code("a"), 0x61u);
  EXPECT_EQ(code("\xC3\xA9"), 0xE9u);
  EXPECT_EQ(code("\xE2\x82\xAC"), 0x20ACu);
  EXPECT_EQ(code("\xF0\x9F\x98\x80"), 0x1F600u);
}

TEST(Utf8, RefusesOverlongFormsSurrogatesAndStrayBytes) {
  for (const char* text : {"\x80", "\xC0\xAF", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
                           "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xE2\x82", "\xC3", "\xC3(", "ok\xFF"})
    EXPECT_FALSE(is_utf8(text)) << text;
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8("\xED\x9F\xBF \xEE\x80\x80 \xF4\x8F\xBF\xBF"));
}

TEST(Utf8, PrintableTextMovesNoCursor) {
  EXPECT_EQ(printable("a\nb\x1B[1m\xFF"), "a%0Ab%1B[1m%FF");
  EXPECT_EQ(printable("\xE2\x80\xAE"), "%E2%80%AE") << "a direction mark";
  EXPECT_EQ(brief_text(std::string(500, 'x')), std::string(120, 'x') + "…");
}

}  // namespace
}  // namespace ttap
