#include "core/number_set.h"

#include <gtest/gtest.h>

namespace ttap {
namespace {

TEST(NumberSet, HoldsNumbersAndRanges) {
  const auto set = NumberSet::parse("1,4-7");
  ASSERT_TRUE(set.ok());
  for (uint64_t inside : {1, 4, 5, 7}) EXPECT_TRUE(set->contains(inside)) << inside;
  for (uint64_t outside : {0, 2, 3, 8}) EXPECT_FALSE(set->contains(outside)) << outside;
}

TEST(NumberSet, RefusesWhatIsNotAList) {
  for (const char* text : {"", ",", "1,", "a", "1-", "3-1", "1;2", "-1", "99999999999999999999"})
    EXPECT_FALSE(NumberSet::parse(text).ok()) << text;
}

TEST(NumberSet, TheLastRangeMayBeOpenWhereThatIsAllowed) {
  using enum NumberSet::LastRange;
  const auto set = NumberSet::parse("1,4-", kMayBeOpen);
  ASSERT_TRUE(set.ok());
  for (uint64_t inside : {uint64_t{1}, uint64_t{4}, UINT64_MAX}) EXPECT_TRUE(set->contains(inside)) << inside;
  for (uint64_t outside : {0, 2, 3}) EXPECT_FALSE(set->contains(outside)) << outside;
  for (const char* text : {"-", "4-,7", "1,", "4--"}) EXPECT_FALSE(NumberSet::parse(text, kMayBeOpen).ok()) << text;
}

TEST(NumberSet, IsTextAgain) {
  for (const char* text : {"3", "0,2", "1,4-7", "0,10-"})
    EXPECT_EQ(NumberSet::parse(text, NumberSet::LastRange::kMayBeOpen)->text(), text);
}

TEST(RangesText, JoinsNeighbours) {
  const uint32_t numbers[] = {0, 1, 2, 3, 7, 9, 9, 10};
  EXPECT_EQ(ranges_text(numbers), "0-3, 7, 9-10");
}

}  // namespace
}  // namespace ttap
