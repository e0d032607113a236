#include "analyze/diff/blame/call_nodes.h"

#include <gtest/gtest.h>

#include "analyze/made_side.h"

namespace ttap {
namespace {

// A layer of which only the modules without others inside were recorded: norm; attention { query, value, (code), out }.
class CallNodesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    norm_out = add("layer.norm", "out", 1);
    query_in = add("layer.attention.query", "in", 1);
    query_out = add("layer.attention.query", "out", 2);
    value_in = add("layer.attention.value", "in", 1);
    value_out = add("layer.attention.value", "out", 3);
    out_in = add("layer.attention.out", "in", 4);
    out_out = add("layer.attention.out", "out", 5);
  }

  uint32_t add(const std::string& name, std::string_view role, uint64_t bits) {
    if (events.empty() || side.event(events.back()).name != name) events.push_back(side.add_event(name, around));
    const uint32_t index = side.add_tensor(events.back(), role);
    side.at(index).has_fingerprint = true;
    side.at(index).fingerprint.hash.low = bits;
    diffs.emplace_back().match = {index, index, MatchedBy::kKey};
    return index;
  }

  MadeSide side;
  std::vector<uint32_t> events;
  std::vector<TensorDiff> diffs;
  uint32_t around = kNoEvent;
  uint32_t norm_out = 0, query_in = 0, query_out = 0, value_in = 0, value_out = 0, out_in = 0, out_out = 0;
};

TEST_F(CallNodesTest, AnArgumentThatNoCallReturnedIsMadeOfWhatTheModulesBesideItHad) {
  CallNodes calls(side, side, diffs);
  EXPECT_EQ(calls.made_of(out_in), (std::vector{query_in, query_out, value_in, value_out}));
  EXPECT_TRUE(calls.is_made_of_same_bits(out_in));
  diffs[value_out].verdict = Verdict::kWithin;
  EXPECT_FALSE(calls.is_made_of_same_bits(out_in));
}

TEST_F(CallNodesTest, AnArgumentThatACallReturnedIsNotMadeByCode) {
  CallNodes calls(side, side, diffs);
  EXPECT_TRUE(calls.made_of(value_in).empty());
  EXPECT_FALSE(calls.is_made_of_same_bits(value_in));
}

TEST_F(CallNodesTest, WhatAModuleWasMadeOfIsNotGuessedWhenStrict) {
  CallNodes calls(side, side, diffs, true);
  EXPECT_TRUE(calls.made_of(out_in).empty());
  EXPECT_FALSE(calls.is_made_of_same_bits(out_in));
}

TEST_F(CallNodesTest, ACallThatWasRecordedAroundItTellsWhatItWasMadeOf) {
  around = side.add_event("tower");
  add("tower.up", "out", 6);
  const uint32_t down_in = add("tower.down", "in", 7);
  CallNodes calls(side, side, diffs);
  EXPECT_TRUE(calls.made_of(down_in).empty()) << "nothing went into tower";
}

}  // namespace
}  // namespace ttap
