#include "analyze/diff/ranks/shards.h"

#include <gtest/gtest.h>

#include <map>

#include "analyze/joined_ranks.h"

namespace ttap::test {
namespace {

// ---- the rule file ----

TEST(ShardRulesFile, TheFirstPatternThatIsFoundCounts) {
  const auto rules = ShardRules::parse("up$: concat -1\ndown: sum\nu: replicated\nnever: concat 0\n", "r.yaml");
  ASSERT_TRUE(rules.ok()) << rules.error().describe();
  const auto up = rules.value().find("mlp.up");
  ASSERT_TRUE(up);
  EXPECT_EQ(up->kind, ShardRule::Kind::kConcat);
  EXPECT_EQ(up->dim, -1);
  EXPECT_EQ(rules.value().find("mlp.down")->kind, ShardRule::Kind::kSum);
  EXPECT_EQ(rules.value().find("mlp.up@in/0")->kind, ShardRule::Kind::kReplicated);
  EXPECT_FALSE(rules.value().find("norm"));
  EXPECT_EQ(rules.value().unused(), (std::vector<std::string>{"never"}));
}

TEST(ShardRulesFile, WhatIsNoRuleIsAnErrorThatNamesTheLine) {
  for (const char* value : {"concat", "concat x", "concat 1 2", "sum 1", "gather", "concat 99999999999"}) {
    const auto rules = ShardRules::parse("a: sum\nb: " + std::string(value) + "\n", "r.yaml");
    ASSERT_FALSE(rules.ok()) << value;
    EXPECT_TRUE(contains(rules.error().describe(), "line 2"));
    EXPECT_TRUE(contains(rules.error().describe(), "r.yaml"));
  }
  const auto pattern = ShardRules::parse("'(': sum\n", "r.yaml");
  ASSERT_FALSE(pattern.ok());
  EXPECT_TRUE(contains(pattern.error().describe(), "line 1"));
}

// ---- concat ----

TEST_F(Shards, ConcatPutsThePartsInTheOrderOfTheRanks) {
  rank(1, [](SamplePass& pass) { pass.tensor<float>("x", {2, 2}, {3, 4, 7, 8}); });
  rank(0, [](SamplePass& pass) { pass.tensor<float>("x", {2, 2}, {1, 2, 5, 6}); });
  const auto side = join("x: concat 1");
  EXPECT_EQ(side->place(), "ranks 0-1, pass 3");
  EXPECT_EQ(shape_of(*side, 0), (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(values_of<float>(side->read(0)), (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(side->tensor(0).byte_count, 32u);
  EXPECT_TRUE(side->tensor(0).has_bytes);
  EXPECT_FALSE(side->tensor(0).has_fingerprint);
  EXPECT_TRUE(contains(side->note(0), "concat 1"));
  EXPECT_EQ(side->differing_replicas(0), Ranks{});
}

TEST_F(Shards, OfAConcatTheRankThatHoldsAnElementIsKnown) {
  ranks({2, 2}, {{1, 2, 5, 6}, {3, 4, 7, 8}});
  const auto side = join("x: concat 1");
  for (const uint64_t element : {0, 1, 4, 5}) EXPECT_EQ(side->ranks_of(0, element), (Ranks{0}));
  for (const uint64_t element : {2, 3, 6, 7}) EXPECT_EQ(side->ranks_of(0, element), (Ranks{1}));
  EXPECT_EQ(side->ranks_of(0, 8), Ranks{});
}

TEST_F(Shards, ConcatCountsANegativeDimensionFromTheEnd) {
  ranks({1, 2}, {{1, 2}, {3, 4}});
  const auto side = join("x: concat -2");
  EXPECT_EQ(shape_of(*side, 0), (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(values_of<float>(side->read(0)), (std::vector<float>{1, 2, 3, 4}));
}

TEST_F(Shards, ConcatTakesPartsOfDifferentLength) {
  rank(0, [](SamplePass& pass) { pass.tensor<float>("x", {2, 2}, {1, 2, 4, 5}); });
  rank(1, [](SamplePass& pass) { pass.tensor<float>("x", {2, 1}, {3, 6}); });
  rank(2, [](SamplePass& pass) { pass.tensor<float>("x", {2, 0}, {}); });
  const auto side = join("x: concat 1");
  EXPECT_EQ(shape_of(*side, 0), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(values_of<float>(side->read(0)), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(side->ranks_of(0, 5), (Ranks{1}));
}

TEST_F(Shards, PartsThatDoNotFitAreTheFirstRanksWithANote) {
  rank(0, [](SamplePass& pass) {
    pass.tensor<float>("other_dims", {2, 1}, {1, 2});
    pass.tensor<float>("no_such_dim", {1}, {1});
    pass.tensor<float>("dtype", {1}, {1});
    pass.tensor<uint8_t>("bool_sum", {1}, {1});
    pass.tensor<float>("copies", {2}, {1, 2});
  });
  rank(1, [](SamplePass& pass) {
    pass.tensor<float>("other_dims", {3, 1}, {3, 4, 5});
    pass.tensor<float>("no_such_dim", {1}, {2});
    pass.tensor<double>("dtype", {1}, {2});
    pass.tensor("bool_sum", DType::kBool, {1}, {std::byte{1}});
    pass.tensor<float>("copies", {3}, {1, 2, 3});
  });
  const auto side = join("copies: replicated\nno_such_dim: concat 1\nother: concat 1\n.: sum\n");
  ASSERT_EQ(side->tensor_count(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_TRUE(contains(side->note(i), "only the part of rank 0")) << i;
    EXPECT_TRUE(side->tensor(i).has_fingerprint) << i;
  }
  EXPECT_EQ(shape_of(*side, 0), (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(values_of<float>(side->read(0)), (std::vector<float>{1, 2}));
  EXPECT_TRUE(contains(side->note(1), "dimension 1"));
  EXPECT_TRUE(contains(side->note(2), "f64"));
}

// ---- sum ----

TEST_F(Shards, SumAddsInDoubleAndRoundsOnce) {
  ranks({2}, {{1e8F, 1}, {1, 2}, {-1e8F, 3}});  // in float, 1e8 + 1 is 1e8
  const auto side = join("x: sum");
  EXPECT_EQ(values_of<float>(side->read(0)), (std::vector<float>{1, 6}));
  EXPECT_FALSE(side->tensor(0).has_fingerprint);
  EXPECT_EQ(side->ranks_of(0, 0), Ranks{});
  EXPECT_TRUE(contains(side->note(0), "sum"));
}

TEST_F(Shards, SumOfIntegersIsExact) {
  const int64_t large = (int64_t{1} << 53) + 1;
  rank(0, [&](SamplePass& pass) { pass.tensor<int64_t>("x", {2}, {large, -5}); });
  rank(1, [&](SamplePass& pass) { pass.tensor<int64_t>("x", {2}, {large, 3}); });
  EXPECT_EQ(values_of<int64_t>(join("x: sum")->read(0)), (std::vector<int64_t>{2 * large, -2}));
}

TEST_F(Shards, SumOfHalvesRoundsToTheNearestEven) {
  struct Case {
    DType dtype;
    uint16_t a, b, sum;
  };
  // f16: 1 + 2^-11 is a tie, down to even; 1 + 3·2^-11 a tie, up. 65504 + 16 overflows. The smallest subnormals add up.
  const std::vector<Case> cases = {
      {DType::kF16, 0x3C00, 0x1000, 0x3C00},  {DType::kF16, 0x3C00, 0x1600, 0x3C02},
      {DType::kF16, 0x7BFF, 0x4C00, 0x7C00},  {DType::kF16, 0x0001, 0x0001, 0x0002},
      {DType::kF16, 0x03FF, 0x0001, 0x0400},  {DType::kF16, 0xBC00, 0x3800, 0xB800},
      {DType::kF16, 0x7C00, 0xFC00, 0x7E00},  {DType::kBF16, 0x3F80, 0x3B80, 0x3F80},
      {DType::kBF16, 0x3F80, 0x3C40, 0x3F82}, {DType::kBF16, 0x7F7F, 0x7F7F, 0x7F80},
      {DType::kBF16, 0x0001, 0x0001, 0x0002}, {DType::kBF16, 0xBF80, 0x0000, 0xBF80},
  };
  for (const Case& one : cases) {
    for (uint32_t number = 0; number < 2; ++number) {
      rank(number, [&](SamplePass& pass) {
        const auto bytes = std::as_bytes(std::span(number == 0 ? &one.a : &one.b, 1));
        pass.tensor("x", one.dtype, {1}, {bytes.begin(), bytes.end()});
      });
    }
    const auto sum = values_of<uint16_t>(join("x: sum")->read(0));
    ASSERT_EQ(sum.size(), 1u);
    const bool both_nan = one.sum == 0x7E00 && (sum[0] & 0x7FFF) == 0x7E00;
    EXPECT_TRUE(sum[0] == one.sum || both_nan) << std::hex << one.a << " + " << one.b << " gave " << sum[0];
  }
}

TEST_F(Shards, WithoutBytesAConcatHasNeitherBytesNorFingerprint) {
  for (uint32_t number = 0; number < 2; ++number) {
    rank(number, [&](SamplePass& pass) {
      pass.tensor<float>("x", {1}, {1}, {.level = number == 0 ? Level::kFull : Level::kFingerprint});
    });
  }
  const auto side = join("x: concat 0");
  EXPECT_FALSE(side->tensor(0).has_bytes);
  EXPECT_FALSE(side->tensor(0).has_fingerprint);
  EXPECT_EQ(shape_of(*side, 0), (std::vector<int64_t>{2}));
  EXPECT_TRUE(contains(side->note(0), "without bytes"));
  EXPECT_EQ(side->read(0).error().code, ErrorCode::kNotRecorded);
}

// ---- replicated ----

TEST_F(Shards, EqualReplicasKeepTheirFingerprint) {
  ranks({2}, {{1, 2}, {1, 2}});
  const auto side = join("x: replicated");
  EXPECT_TRUE(side->tensor(0).has_fingerprint);
  EXPECT_EQ(values_of<float>(side->read(0)), (std::vector<float>{1, 2}));
  EXPECT_EQ(side->note(0), "");
  EXPECT_EQ(side->differing_replicas(0), Ranks{});
  EXPECT_EQ(side->ranks_of(0, 0), (Ranks{0, 1}));
}

TEST_F(Shards, AReplicaThatDiffersIsNamedAndCanBeRead) {
  for (const bool hides_hashes : {false, true}) {
    hides_hashes_ = hides_hashes;
    ranks({2}, {{1, 2}, {1, 2}, {1, 9}});
    const auto side = join("x: replicated");
    EXPECT_TRUE(contains(side->note(0), "replicas differ: rank 2"));
    EXPECT_EQ(side->differing_replicas(0), (Ranks{2}));
    EXPECT_EQ(values_of<float>(side->read(0)), (std::vector<float>{1, 2}));
    EXPECT_EQ(values_of<float>(side->read_replica(0, 2)), (std::vector<float>{1, 9}));
    EXPECT_EQ(side->ranks_of(0, 1), (Ranks{0, 1}));  // who has it as read() gives it
    EXPECT_FALSE(side->tensor(0).has_fingerprint);
    EXPECT_TRUE(side->tensor(0).has_bytes);
  }
}

TEST_F(Shards, ReplicasAreComparedByHashWhenOnlyTheirFingerprintsWereKept) {
  for (uint32_t number = 0; number < 2; ++number) {
    rank(number, [&](SamplePass& pass) {
      pass.tensor<float>("same", {1}, {1}, {.level = Level::kFingerprint});
      pass.tensor<float>("other", {1}, {static_cast<float>(number)}, {.level = Level::kFingerprint});
      pass.tensor<float>("meta", {1}, {1}, {.level = Level::kMeta});
    });
  }
  const auto side = join(".: replicated");
  EXPECT_TRUE(side->tensor(0).has_fingerprint);
  EXPECT_FALSE(side->tensor(1).has_fingerprint);
  EXPECT_EQ(side->differing_replicas(1), (Ranks{1}));
  EXPECT_EQ(side->differing_replicas(2), Ranks{});
  EXPECT_TRUE(contains(side->note(2), "nothing was kept to compare the replicas with: rank 1"));
}

// ---- order, and what only some ranks have ----

TEST_F(Shards, WhatOnlyALaterRankHasFollowsWhatItFollowsThere) {
  rank(0, [](SamplePass& pass) {
    const uint32_t root = pass.event("root");
    for (const char* name : {"a", "b"}) pass.tensor<float>(name, {1}, {1}, {.event = pass.event(name, root)});
  });
  rank(1, [](SamplePass& pass) {
    const uint32_t root = pass.event("root");
    const uint32_t more = pass.event("more", root);
    for (const char* name : {"a", "extra", "b"}) pass.tensor<float>(name, {1}, {1}, {.event = pass.event(name, more)});
  });
  const auto side = join();
  EXPECT_EQ(keys_of(*side), (std::vector<std::string>{"a", "extra", "b"}));
  EXPECT_TRUE(contains(side->note(1), "not in rank 0"));
  std::map<std::string, std::string> parents;
  for (size_t i = 0; i < side->event_count(); ++i) {
    const EventRecord event = side->event(i);
    ASSERT_TRUE(event.parent == kNoEvent || event.parent < i);
    parents[std::string(event.name)] = event.parent == kNoEvent ? "" : side->event(event.parent).name;
  }
  EXPECT_EQ(parents, (std::map<std::string, std::string>{
                         {"root", ""}, {"more", "root"}, {"a", "root"}, {"extra", "more"}, {"b", "root"}}));
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(side->event(side->tensor(i).event).name, side->tensor(i).name);
}

TEST_F(Shards, ARankThatSharesNothingWithTheOthersFollowsThem) {
  rank(0, [](SamplePass& pass) { pass.tensor<float>("layers.0", {1}, {1}); });
  rank(1, [](SamplePass& pass) { pass.tensor<float>("layers.1", {1}, {1}); });
  EXPECT_EQ(keys_of(*join()), (std::vector<std::string>{"layers.0", "layers.1"}));
}

TEST_F(Shards, AKeyThatStandsThereTwiceIsMatchedInItsOrder) {
  for (uint32_t number = 0; number < 2; ++number) {
    rank(number, [&](SamplePass& pass) {
      pass.tensor<float>("x", {1}, {1});
      pass.tensor<float>("x", {1}, {2});
    });
  }
  const auto side = join("x: concat 0");
  ASSERT_EQ(side->tensor_count(), 2u);
  EXPECT_EQ(values_of<float>(side->read(0)), (std::vector<float>{1, 1}));
  EXPECT_EQ(values_of<float>(side->read(1)), (std::vector<float>{2, 2}));
}

TEST_F(Shards, OneRankAloneIsItself) {
  rank(5, [](SamplePass& pass) { pass.tensor<float>("x", {2}, {1, 2}); });
  const auto side = join();
  EXPECT_EQ(side->place(), "rank 5, pass 3");
  EXPECT_EQ(side->note(0), "");
  EXPECT_TRUE(side->tensor(0).has_fingerprint);
  EXPECT_EQ(side->ranks_of(0, 0), (Ranks{5}));
}

// ---- guessing from the reference ----

TEST_F(Shards, TheShapeOfTheReferenceSaysHowPartsBelongTogether) {
  const auto reference = side([](SamplePass& pass) {
    pass.tensor<float>("split", {2, 3}, {1, 2, 3, 4, 5, 6});
    pass.tensor<float>("copies", {2}, {1, 2});
    pass.tensor<float>("partial", {1}, {3});
    pass.tensor<float>("strange", {5}, {1, 2, 3, 4, 5});
    pass.tensor<float>("equal_shards", {2}, {7, 7});
  });
  rank(0, [](SamplePass& pass) {
    pass.tensor<float>("split", {2, 2}, {1, 2, 4, 5});
    pass.tensor<float>("copies", {2}, {1, 2});
    pass.tensor<float>("partial", {1}, {1});
    pass.tensor<float>("strange", {2}, {1, 2});
    pass.tensor<float>("equal_shards", {1}, {7});
    pass.tensor<float>("unknown", {1}, {1});
  });
  rank(1, [](SamplePass& pass) {
    pass.tensor<float>("split", {2, 1}, {3, 6});
    pass.tensor<float>("copies", {2}, {1, 2});
    pass.tensor<float>("partial", {1}, {2});
    pass.tensor<float>("strange", {2}, {3, 4});
    pass.tensor<float>("equal_shards", {1}, {7});
    pass.tensor<float>("unknown", {1}, {2});
  });
  const auto joined = join(nullptr, reference.get());
  EXPECT_EQ(values_of<float>(joined->read(0)), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_TRUE(contains(joined->note(0), "concat 1 (guessed from the shape)"));
  EXPECT_EQ(joined->note(1), "");
  EXPECT_TRUE(contains(joined->note(2), "replicas differ: rank 1 (if they are partial sums, say `sum`"));
  EXPECT_TRUE(contains(joined->note(3), "only the part of rank 0: the parts do not add up"));
  EXPECT_EQ(values_of<float>(joined->read(4)), (std::vector<float>{7, 7}));
  EXPECT_TRUE(contains(joined->note(5), "only the part of rank 0: nothing says"));
}

}  // namespace
}  // namespace ttap::test
