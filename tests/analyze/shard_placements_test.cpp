#include <gtest/gtest.h>

#include <map>

#include "analyze/joined_ranks.h"

namespace ttap::test {
namespace {

std::string quoted(const std::string& text) { return '"' + text + '"'; }

// placements.json of a rank with one DTensor, `x`.
std::string placed(const std::string& mesh, const std::string& coordinate, const std::string& placements,
                   const std::string& more = "") {
  return R"({"x/_local_tensor": {"mesh_shape": )" + mesh + R"(, "mesh_dim_names": null, "coordinate": )" + coordinate +
         R"(, "placements": )" + placements + R"(, "global_shape": [4])" + more + "}}";
}

// The same on a mesh of two ranks.
std::string placed_on_two(uint32_t rank, const std::string& placement, const std::string& more = "") {
  return placed("[2]", "[" + std::to_string(rank) + "]", "[" + quoted(placement) + "]", more);
}

class Placed : public Shards {
 protected:
  void rank_at(uint32_t number, std::vector<float> values, const std::string& json) {
    rank(
        number,
        [&](SamplePass& pass) {
          pass.tensor<float>("x", {static_cast<int64_t>(values.size())}, values, {.path = "/_local_tensor"});
        },
        json);
  }
};

TEST_F(Placed, TheLocalPartsAreJoinedUnderTheKeyOfTheWhole) {
  rank_at(0, {1, 2}, placed_on_two(0, "Shard(0)"));
  rank_at(1, {3}, placed_on_two(1, "Shard(0)"));
  const auto side = join();
  EXPECT_EQ(keys_of(*side), (std::vector<std::string>{"x"}));
  EXPECT_EQ(values_of<float>(side->read(0)), (std::vector<float>{1, 2, 3}));
  EXPECT_TRUE(contains(side->note(0), "concat 0 (placements)"));
}

TEST_F(Placed, EachPlacementMeansWhatItMeansInPyTorch) {
  const std::map<std::string, std::vector<float>> expected = {
      {"Shard(-1)", {1, 2, 3, 4}}, {"Partial(sum)", {4, 6}}, {"Partial(avg)", {2, 3}}, {"Replicate()", {1, 2}}};
  for (const auto& [placement, values] : expected) {
    rank_at(0, {1, 2}, placed_on_two(0, placement));
    rank_at(1, {3, 4}, placed_on_two(1, placement));
    EXPECT_EQ(values_of<float>(join()->read(0)), values) << placement;
  }
}

TEST_F(Placed, TheOrderIsThatOfTheCoordinates) {
  rank_at(0, {1}, placed_on_two(1, "Shard(0)"));
  rank_at(1, {2}, placed_on_two(0, "Shard(0)"));
  const auto side = join();
  EXPECT_EQ(values_of<float>(side->read(0)), (std::vector<float>{2, 1}));
  EXPECT_EQ(side->ranks_of(0, 0), (Ranks{1}));
}

TEST_F(Placed, AMeshOfTwoDimensionsIsJoinedFromItsLast) {
  // dp × tp: the batch over dp, and each half of it a sum over tp.
  const std::string placements = "[" + quoted("Shard(0)") + ", " + quoted("Partial(sum)") + "]";
  rank_at(0, {1}, placed("[2, 2]", "[0, 0]", placements));
  rank_at(1, {2}, placed("[2, 2]", "[0, 1]", placements));
  rank_at(2, {3}, placed("[2, 2]", "[1, 0]", placements));
  rank_at(3, {4}, placed("[2, 2]", "[1, 1]", placements));
  EXPECT_EQ(values_of<float>(join()->read(0)), (std::vector<float>{3, 7}));
}

TEST_F(Placed, ADimensionThatBothMeshDimensionsSplitIsSplitByTheLastWithinTheFirst) {
  const std::string placements = "[" + quoted("Shard(0)") + ", " + quoted("Shard(0)") + "]";
  rank_at(0, {1}, placed("[2, 2]", "[0, 0]", placements));
  rank_at(1, {2}, placed("[2, 2]", "[0, 1]", placements));
  rank_at(2, {3, 4}, placed("[2, 2]", "[1, 0]", placements));
  rank_at(3, {5}, placed("[2, 2]", "[1, 1]", placements));
  const auto side = join();
  EXPECT_EQ(values_of<float>(side->read(0)), (std::vector<float>{1, 2, 3, 4, 5}));
  for (const auto& [element, rank] : std::map<uint64_t, uint32_t>{{0, 0}, {1, 1}, {2, 2}, {3, 2}, {4, 3}})
    EXPECT_EQ(side->ranks_of(0, element), (Ranks{rank}));
}

TEST_F(Placed, ReplicasOfAShardAreComparedWithEachOther) {
  const std::string placements = "[" + quoted("Replicate()") + ", " + quoted("Shard(0)") + "]";
  rank_at(0, {1}, placed("[2, 2]", "[0, 0]", placements));
  rank_at(1, {2}, placed("[2, 2]", "[0, 1]", placements));
  rank_at(2, {1}, placed("[2, 2]", "[1, 0]", placements));
  rank_at(3, {9}, placed("[2, 2]", "[1, 1]", placements));
  const auto side = join();
  EXPECT_EQ(values_of<float>(side->read(0)), (std::vector<float>{1, 2}));
  EXPECT_EQ(side->differing_replicas(0), (Ranks{3}));
  EXPECT_EQ(values_of<float>(side->read_replica(0, 3)), (std::vector<float>{1, 9}));
  EXPECT_EQ(side->ranks_of(0, 0), (Ranks{0, 2}));
  EXPECT_EQ(side->ranks_of(0, 1), (Ranks{1}));
}

TEST_F(Placed, RanksOutsideTheMeshAndSecondCopiesAreLeftOut) {
  rank_at(0, {1}, placed_on_two(0, "Shard(0)"));
  rank_at(1, {2}, placed_on_two(1, "Shard(0)"));
  rank_at(2, {8}, placed_on_two(0, "Shard(0)"));
  rank_at(3, {}, placed("[2]", "null", "[" + quoted("Shard(0)") + "]"));
  const auto side = join();
  EXPECT_EQ(values_of<float>(side->read(0)), (std::vector<float>{1, 2}));
  EXPECT_TRUE(contains(side->note(0), "rank 2 left out"));
}

TEST_F(Placed, APartThatIsMissingIsSaid) {
  const std::string placements = "[" + quoted("Shard(0)") + "]";
  rank_at(0, {1}, placed("[3]", "[0]", placements));
  rank_at(2, {3}, placed("[3]", "[2]", placements));
  rank(4, [](SamplePass& pass) { pass.tensor<float>("y", {1}, {1}); });
  const auto side = join();
  EXPECT_EQ(values_of<float>(side->read(0)), (std::vector<float>{1, 3}));
  EXPECT_TRUE(contains(side->note(0), "2 of 3 parts"));
  EXPECT_TRUE(contains(side->note(0), "not in rank 4"));
  EXPECT_EQ(side->place(), "ranks 0, 2, 4, pass 3");
}

TEST_F(Placed, ARuleOutweighsThePlacement) {
  rank_at(0, {1}, placed_on_two(0, "Shard(0)"));
  rank_at(1, {2}, placed_on_two(1, "Shard(0)"));
  EXPECT_EQ(values_of<float>(join("^x$: sum")->read(0)), (std::vector<float>{3}));
}

TEST_F(Placed, APassMayBeSpreadOtherwiseThanTheFirst) {
  for (uint32_t number = 0; number < 2; ++number) {
    const std::string here = R"({"mesh_shape": [2], "coordinate": [)" + std::to_string(number) +
                             R"(], "placements": [)" + quoted("Partial(sum)") + "]}";
    rank_at(number, {1}, placed_on_two(number, "Shard(0)", R"(, "passes": {"3": )" + here + R"(, "4": {}})"));
  }
  EXPECT_EQ(values_of<float>(join()->read(0)), (std::vector<float>{2}));  // it is pass 3
}

TEST_F(Placed, WhatCannotBePutTogetherIsTheFirstRanks) {
  for (const char* placement :
       {"_StridedShard(0)", "Partial(max)", "Shard(0", "Shard()", "Shard(x)", "Shard(7)", "Shard(99999999999)"}) {
    rank_at(0, {1}, placed_on_two(0, placement));
    rank_at(1, {2}, placed_on_two(1, placement));
    const auto side = join();
    EXPECT_EQ(values_of<float>(side->read(0)), (std::vector<float>{1})) << placement;
    EXPECT_TRUE(contains(side->note(0), "only the part of rank 0")) << placement;
  }
}

TEST_F(Placed, RanksThatContradictEachOtherAreNotPutTogether) {
  rank_at(0, {1}, placed_on_two(0, "Shard(0)"));
  rank_at(1, {2}, placed_on_two(1, "Replicate()"));
  EXPECT_TRUE(contains(join()->note(0), "different things"));
}

TEST_F(Placed, HostileJsonIsNotBelieved) {
  const std::string key = R"({"x/_local_tensor": )";
  const std::string shard = "[" + quoted("Shard(0)") + "]";
  const std::vector<std::string> attacks = {
      "{",
      "[]",
      "null",
      std::string(100'000, '['),
      "\xFF\xFE",
      key + "3}",
      key + "null}",
      key + "{}}",
      key + "{\"mesh_shape\": " + std::string(100'000, '['),
      placed("[2, 2]", "[0]", shard),
      placed("[]", "[]", "[]"),
      placed("[2]", "[2]", shard),
      placed("[2]", "[-1]", shard),
      placed("[2]", "[0.5]", shard),
      placed("[1e99]", "[0]", shard),
      placed("[99999999999999999999]", "[0]", shard),
      placed("[2]", "[0]", "[7]"),
      placed("[2]", "[0]", shard.substr(1)),
      placed("[2]", "{}", shard),
      placed("[2]", "[0]", shard, R"(, "passes": {"3": {"mesh_shape": 1}})"),
  };
  for (const std::string& json : attacks) {
    rank_at(0, {1}, json);
    rank_at(1, {2}, json);
    const auto side = join();
    EXPECT_EQ(values_of<float>(side->read(0)), (std::vector<float>{1})) << json.substr(0, 100);
    EXPECT_TRUE(contains(side->note(0), "nothing says")) << json.substr(0, 100);
  }
}

TEST_F(Placed, AMeshOfWhichMostIsMissingCostsNothing) {
  const std::string shard = "[" + quoted("Shard(0)") + ", " + quoted("Shard(0)") + ", " + quoted("Shard(0)") + "]";
  const std::string mesh = "[2147483647, 2147483647, 2147483647]";
  rank_at(0, {1}, placed(mesh, "[0, 0, 0]", shard));
  rank_at(1, {2}, placed(mesh, "[2147483646, 2147483646, 0]", shard));
  const auto side = join();
  EXPECT_EQ(values_of<float>(side->read(0)), (std::vector<float>{1, 2}));
  EXPECT_TRUE(contains(side->note(0), "2 of "));
}

TEST_F(Placed, AFileThatIsNoJsonIsSaidOnce) {
  rank_at(0, {1}, "{");
  rank_at(1, {2}, "");
  const auto side = join();
  ASSERT_EQ(side->info().notes.size(), 1u);
  EXPECT_TRUE(contains(side->info().notes[0], "rank 0: placements.json was not used"));
}

}  // namespace
}  // namespace ttap::test
