#include "core/byte_size.h"

#include <gtest/gtest.h>

namespace ttap {
namespace {

TEST(ByteSize, TakesUnitsInEitherCase) {
  EXPECT_EQ(parse_byte_size("4096"), 4096u);
  EXPECT_EQ(parse_byte_size("0"), 0u);
  EXPECT_EQ(parse_byte_size("3M"), 3u << 20);
  EXPECT_EQ(parse_byte_size("2g"), uint64_t{2} << 30);
  EXPECT_EQ(parse_byte_size("1T"), uint64_t{1} << 40);
}

TEST(ByteSize, RefusesWhatIsNoSizeOrDoesNotFit) {
  for (const char* text : {"", "M", "12Q", "-1", "1.5G", "3MB", " 3", "18446744073709551616", "16777216T"})
    EXPECT_FALSE(parse_byte_size(text)) << text;
}

}  // namespace
}  // namespace ttap
