#include "analyze/diff/match/ops/op_sequence.h"

#include <gtest/gtest.h>

#include <string_view>

#include "analyze/diff/match/longest_ascent.h"

namespace ttap {
namespace {

// One op per letter; a capital is the same operator with another shape.
std::vector<OpSymbol> ops(std::string_view letters) {
  std::vector<OpSymbol> symbols;
  for (const char letter : letters) {
    const bool other_shape = letter >= 'A' && letter <= 'Z';
    symbols.push_back(
        {.name = static_cast<uint64_t>(other_shape ? letter - 'A' + 'a' : letter), .shape = other_shape ? 2u : 1u});
  }
  return symbols;
}

OpPairs aligned(std::string_view a, std::string_view b) { return align_sequences(ops(a), ops(b)); }

TEST(OpSequence, FindsTheCommonSubsequence) {
  EXPECT_EQ(aligned("abcd", "abxcd"), (OpPairs{{0, 0}, {1, 1}, {2, 3}, {3, 4}}));
  EXPECT_EQ(aligned("abcd", "ad"), (OpPairs{{0, 0}, {3, 1}}));
  EXPECT_EQ(aligned("abc", "xyz"), OpPairs{});
  EXPECT_EQ(aligned("", "abc"), OpPairs{});
}

TEST(OpSequence, AnotherShapeIsBetterThanNothingAndWorseThanTheSame) {
  EXPECT_EQ(aligned("a", "A"), (OpPairs{{0, 0}}));
  EXPECT_EQ(aligned("a", "Aa"), (OpPairs{{0, 1}}));
}

TEST(OpSequence, AmongEqualsTheSameBitsAreChosen) {
  auto a = ops("aa"), b = ops("aaa");
  a[0].bits = b[1].bits = 7;
  a[1].bits = b[2].bits = 8;
  EXPECT_EQ(align_sequences(a, b), (OpPairs{{0, 1}, {1, 2}}));
}

// Too long for a table of all pairs.
constexpr size_t kLong = 20'000;

std::vector<OpSymbol> long_sequence() {
  std::vector<OpSymbol> symbols;
  for (size_t i = 0; i < kLong; ++i) symbols.push_back({.name = 1 + i * i % 97, .shape = 1});
  return symbols;
}

TEST(OpSequence, LongSequencesThatDifferInAFewPlacesAreAlignedExactly) {
  const auto a = long_sequence();
  auto b = a;
  b.erase(b.begin() + 15'000);
  b.insert(b.begin() + 10'000, 700, OpSymbol{.name = 1000, .shape = 1});  // more than a window holds
  b.insert(b.begin() + 100, OpSymbol{.name = 1001, .shape = 1});
  const OpPairs pairs = align_sequences(a, b);
  ASSERT_EQ(pairs.size(), kLong - 1);
  for (const auto& [x, y] : pairs) ASSERT_EQ(y, x + (x >= 100) + 700 * (x >= 10'000) - (x > 15'000)) << x;
}

TEST(OpSequence, LongSequencesThatDifferEverywhereAreAlignedInAWindow) {
  const auto a = long_sequence();
  std::vector<OpSymbol> b;
  for (size_t i = 0; i < a.size(); ++i) {
    if (i % 3 == 1) continue;
    b.push_back(a[i]);
    b.push_back({.name = 2000 + i, .shape = 1});
  }
  const OpPairs pairs = align_sequences(a, b);
  EXPECT_GT(pairs.size(), kLong * 2 / 3 - 10);
  for (size_t i = 1; i < pairs.size(); ++i) {
    ASSERT_LT(pairs[i - 1].first, pairs[i].first);
    ASSERT_LT(pairs[i - 1].second, pairs[i].second);
  }
}

TEST(OpSequence, TheLongestAscentKeepsAsManyAsItCan) {
  const std::vector<uint32_t> values{3, 0, 1, 5, 2, 4};
  EXPECT_EQ(longest_ascent(values), (std::vector<uint32_t>{1, 2, 4, 5}));
  EXPECT_TRUE(longest_ascent({}).empty());
}

}  // namespace
}  // namespace ttap
