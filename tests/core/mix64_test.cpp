#include "core/mix64.h"

#include <gtest/gtest.h>

#include <bit>

namespace ttap {
namespace {

TEST(Mix64, MatchesTheReference) {
  // SplitMix64 with seed 0 is mix64 over multiples of the golden ratio; these are its published first outputs.
  EXPECT_EQ(mix64(0x9E3779B97F4A7C15u), 0xE220A8397B1DCDAFu);
  EXPECT_EQ(mix64(0x9E3779B97F4A7C15u * 2), 0x6E789E6AA1B965F4u);
  EXPECT_EQ(mix64(0x9E3779B97F4A7C15u * 3), 0x06C45D188009454Fu);
}

TEST(Mix64, EveryInputBitReachesAboutHalfOfTheOutput) {
  for (int bit = 0; bit < 64; ++bit) {
    int changed = 0;
    for (uint64_t i = 0; i < 256; ++i) {
      const uint64_t x = mix64(i + 1000);
      changed += std::popcount(mix64(x) ^ mix64(x ^ (uint64_t{1} << bit)));
    }
    EXPECT_NEAR(changed / 256.0, 32.0, 2.0) << bit;
  }
}

}  // namespace
}  // namespace ttap
