#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "analyze/joined_ranks.h"
#include "store/sources/module_facts.h"

// Ranks whose modules declare how their tensors are spread (`shards` in model.json).
namespace ttap::test {
namespace {

class DeclaredShards : public Shards {
 protected:
  void declare(const std::string& what, ShardFacts shard) { modules_["x"].shards[what] = std::move(shard); }
};

TEST_F(DeclaredShards, EachPieceIsConcatenatedByItself) {
  declare("out", {.dim = -1, .sizes = {2, 1}});
  ranks({2, 3}, {{1, 2, 5, 11, 12, 15}, {3, 4, 6, 13, 14, 16}});
  const auto side = join();
  EXPECT_EQ(shape_of(*side, 0), (std::vector<int64_t>{2, 6}));
  EXPECT_EQ(values_of<float>(side->read(0)), (std::vector<float>{1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16}));
  EXPECT_EQ(side->ranks_of(0, 2), (Ranks{1}));
  EXPECT_EQ(side->ranks_of(0, 4), (Ranks{0}));
  EXPECT_EQ(side->ranks_of(0, 11), (Ranks{1}));
  EXPECT_TRUE(contains(side->note(0), "concat -1 of 2 pieces each (declared)"));
}

TEST_F(DeclaredShards, OfCopiesInNeighbouringRanksOneIsTaken) {
  declare("out", {.dim = 0, .sizes = {1, 1}, .copies = {1, 2}});
  ranks({2}, {{1, 10}, {2, 10}, {3, 20}, {4, 21}});
  const auto side = join();
  EXPECT_EQ(values_of<float>(side->read(0)), (std::vector<float>{1, 2, 3, 4, 10, 20}));
  EXPECT_EQ(side->ranks_of(0, 4), (Ranks{0, 1}));
  EXPECT_EQ(side->ranks_of(0, 5), (Ranks{2}));
  EXPECT_EQ(side->ranks_of(0, 3), (Ranks{3}));
  EXPECT_EQ(side->differing_replicas(0), (Ranks{3}));
  EXPECT_EQ(values_of<float>(side->read_replica(0, 3)), (std::vector<float>{1, 2, 3, 4, 10, 21}));
}

TEST_F(DeclaredShards, PaddingAtTheEndIsCutOff) {
  declare("out", {.dim = 0, .size = 3});
  ranks({2, 1}, {{1, 2}, {3, 0}, {0, 0}});
  const auto side = join();
  EXPECT_EQ(shape_of(*side, 0), (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(values_of<float>(side->read(0)), (std::vector<float>{1, 2, 3}));
}

TEST_F(DeclaredShards, ASumIsAddedUp) {
  declare("out", {.is_sum = true});
  ranks({2}, {{1, 2}, {3, 4}});
  EXPECT_EQ(values_of<float>(join()->read(0)), (std::vector<float>{4, 6}));
}

TEST_F(DeclaredShards, WhatDoesNotFitIsTheFirstRanksWithANote) {
  declare("out", {.dim = 0, .sizes = {1, 2}});
  ranks({2}, {{1, 2}, {3, 4}});
  const auto side = join();
  EXPECT_TRUE(contains(side->note(0), "only the part of rank 0"));
  EXPECT_TRUE(contains(side->note(0), "its pieces are 3 long, not 2"));
}

TEST_F(DeclaredShards, WhatIsNotDeclaredIsReplicatedAndRulesComeFirst) {
  declare("in", {.dim = 0});
  ranks({2}, {{1, 2}, {1, 3}});
  const auto side = join();
  EXPECT_EQ(values_of<float>(side->read(0)), (std::vector<float>{1, 2}));
  EXPECT_EQ(side->differing_replicas(0), (Ranks{1}));
  declare("out", {.dim = 0});
  ranks({2}, {{1, 2}, {1, 3}});
  EXPECT_EQ(values_of<float>(join("x: sum")->read(0)), (std::vector<float>{2, 5}));
}

TEST(ModelFile, SaysHowTensorsAreSpread) {
  const ScratchDirectory scratch;
  std::ofstream(scratch / "model.json") << R"({"models": [{"modules": [{"name": "x", "type": "a.B", "shards": {
    "out": {"concat": -1, "sizes": [4, 2], "copies": [1, 2]}, "param/weight": {"concat": 0, "size": 321},
    "in": "sum", "in/1": "whatever", "in/2": {"concat": "x"}}}]}]})";
  const auto shards = read_model_facts(scratch / "").modules["x"].shards;
  ASSERT_EQ(shards.size(), 3u);
  EXPECT_EQ(shards.at("out"), (ShardFacts{.dim = -1, .sizes = {4, 2}, .copies = {1, 2}}));
  EXPECT_EQ(shards.at("param/weight"), (ShardFacts{.dim = 0, .size = 321}));
  EXPECT_EQ(shards.at("in"), (ShardFacts{.is_sum = true}));
}

}  // namespace
}  // namespace ttap::test
