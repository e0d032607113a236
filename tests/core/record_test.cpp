#include "ttap/record.h"

#include <gtest/gtest.h>

namespace ttap {
namespace {

TEST(Level, NamesComeBack) {
  for (Level level : {Level::kMeta, Level::kFingerprint, Level::kFull})
    EXPECT_EQ(level_from_name(to_string(level)), level);
  EXPECT_EQ(to_string(Level::kFull), "full");
  for (std::string_view text : {"", "Full", "none", "?"}) EXPECT_FALSE(level_from_name(text)) << text;
}

TEST(Level, MoreIsGreater) {
  EXPECT_LT(Level::kMeta, Level::kFingerprint);
  EXPECT_LT(Level::kFingerprint, Level::kFull);
}

TEST(Ending, HasAName) {
  EXPECT_EQ(to_string(Ending::kComplete), "complete");
  EXPECT_EQ(to_string(Ending::kAborted), "aborted");
  EXPECT_EQ(to_string(Ending::kIncomplete), "incomplete");
}

TEST(TensorRecord, KnowsItsKey) {
  TensorRecord record;
  record.name = "mlp";
  record.call = 2;
  record.role = "in";
  record.path = "/0";
  EXPECT_EQ(record.key(), (Key{.name = "mlp", .call = 2, .role = "in", .path = "/0"}));
  EXPECT_EQ(to_string(record.key()), "mlp::call2@in/0");
}

TEST(DropCounts, TheTotalIsOverEveryCause) {
  const DropCounts drops{
      .staging_full = 1, .disk_full = 20, .io_error = 300, .unsupported = 4000, .late = 600000, .events = 50000};
  EXPECT_EQ(drops.total(), 654321u);
  EXPECT_EQ(DropCounts{}.total(), 0u);
}

TEST(Stats, FiniteIsWhatIsLeft) {
  const Stats stats{.count = 10, .nan = 1, .pos_inf = 2, .neg_inf = 3};
  EXPECT_EQ(stats.finite(), 4u);
}

}  // namespace
}  // namespace ttap
