#include "analyze/check/rank_origins.h"

#include <gtest/gtest.h>

#include <deque>

#include "linked_ops.h"
#include "not_finite.h"
#include "scratch.h"

namespace ttap {
namespace {

using test::LinkedOps;
using Value = LinkedOps::Value;
constexpr auto outside = &LinkedOps::outside;
constexpr auto unrecorded = &LinkedOps::unrecorded;

// Ranks of one pass, each a list of ops.
class RankOriginsTest : public testing::Test {
 protected:
  LinkedOps& rank(uint32_t number) {
    while (ops_.size() <= number) {
      writers_.emplace_back(scratch_.path() / std::to_string(ops_.size()), 0);
      ops_.emplace_back(writers_.back());
    }
    return ops_[number];
  }

  // In place, as c10d does it.
  Value all_reduce(uint32_t number, Value given, float result, std::string_view group = "0",
                   uint32_t group_rank = kNoNumber, uint32_t size = 2) {
    const std::string notes =
        fmt::format(R"({{"group": "{}, rank {} of {}"}})", group, group_rank == kNoNumber ? number : group_rank, size);
    return rank(number).call({.name = "c10d::allreduce_",
                              .in = {{.value = given, .written = true, .path = "/0/0"}},
                              .literals = ", <ProcessGroup>, ReduceOp.SUM",
                              .notes = notes},
                             {result});
  }
  Value made(uint32_t number, std::string_view op, float given, float result) {
    return rank(number).call({op, {outside({given})}}, {result});
  }

  const RankOrigins& origins() {
    if (!found_) {
      std::vector<RankPass> ranks;
      for (size_t i = 0; i < writers_.size(); ++i) {
        auto opened = Pass::open(writers_[i].finish());
        TTAP_CHECK(opened.ok());
        passes_.push_back(std::move(opened).value());
        ranks.push_back({static_cast<uint32_t>(i), &passes_.back()});
      }
      found_.emplace(std::move(ranks));
    }
    return *found_;
  }
  // What a record of a rank comes from.
  const Origin& origin_of(size_t part, Value value) {
    const Descent from = origins().of(part).descent(value.record);
    return origins().of(part).all()[from.nan ? *from.nan : from.inf.value()];
  }
  OriginPlace root_of(size_t part, Value value) {
    const Descent from = origins().of(part).descent(value.record);
    return origins().root_of({part, from.nan ? *from.nan : from.inf.value()});
  }
  std::string_view op_at(OriginPlace place) {
    return passes_[place.part].event(origins().of(place.part).all()[place.origin].event).name;
  }

 private:
  ScratchDirectory scratch_;
  std::deque<test::SamplePass> writers_;
  std::deque<LinkedOps> ops_;
  std::deque<Pass> passes_;
  std::optional<RankOrigins> found_;
};

TEST_F(RankOriginsTest, NanIsFollowedToTheRankWhoseContributionHeldIt) {
  const Value result = all_reduce(0, made(0, "aten::log", 1, 0), kNan);
  all_reduce(1, made(1, "aten::log", -1, kNan), kNan);
  EXPECT_EQ(origin_of(0, result).kind, OriginKind::kFromRank);
  EXPECT_TRUE(origin_of(0, result).is_fault());
  EXPECT_EQ(root_of(0, result).part, 1u);
  EXPECT_EQ(op_at(root_of(0, result)), "aten::log");
  const auto spread = origins().spread_of(root_of(0, result));
  ASSERT_EQ(spread.size(), 1u);
  EXPECT_EQ(spread[0].from, 1u);
  EXPECT_EQ(spread[0].to, std::vector<size_t>{0});
}

TEST_F(RankOriginsTest, OverSeveralHops) {
  const Value at_0 = all_reduce(0, made(0, "aten::exp", 0, 1), kNan, "a", 0);
  const Value again = all_reduce(0, at_0, kNan, "b", 0);
  all_reduce(1, made(1, "aten::log", -1, kNan), kNan, "a", 1);
  const Value at_2 = all_reduce(2, made(2, "aten::exp", 0, 1), kNan, "b", 1);
  EXPECT_EQ(root_of(2, at_2).part, 1u);
  EXPECT_EQ(root_of(0, again).part, 1u);
  const auto spread = origins().spread_of(root_of(2, at_2));
  ASSERT_EQ(spread.size(), 2u);
  EXPECT_EQ(spread[0].from, 1u);
  EXPECT_EQ(spread[1].from, 0u);
  EXPECT_EQ(spread[1].to, std::vector<size_t>{2});
}

TEST_F(RankOriginsTest, AnOverflowOfTheSumIsMadeByTheCollective) {
  const Value result = all_reduce(0, made(0, "aten::exp", 88, 3e38f), kInf);
  all_reduce(1, made(1, "aten::exp", 88, 3e38f), kInf);
  EXPECT_EQ(origin_of(0, result).kind, OriginKind::kMade);
  ASSERT_EQ(origin_of(0, result).collectives.size(), 1u);
  EXPECT_EQ(origin_of(0, result).collectives[0].contributions.size(), 2u);
}

TEST_F(RankOriginsTest, InfOfTwoRanksBecomesNanInTheCollective) {
  const Value result = all_reduce(0, made(0, "aten::exp", 1, 1), kNan);
  all_reduce(1, made(1, "aten::exp", 99, kInf), kNan);
  EXPECT_EQ(origin_of(0, result).kind, OriginKind::kNanFromInf);
  ASSERT_TRUE(origin_of(0, result).inf_from.has_value());
  EXPECT_EQ(origins().root_of({0, *origin_of(0, result).inf_from}).part, 1u);
  EXPECT_TRUE(origins().of(1).all().front().is_fault());  // it became NaN
}

TEST_F(RankOriginsTest, WithoutARankItIsUnknownAndNeverMadeHere) {
  const Value result = all_reduce(0, made(0, "aten::log", 1, 0), kNan);
  EXPECT_EQ(origin_of(0, result).kind, OriginKind::kUnknown);
  EXPECT_EQ(origin_of(0, result).collectives[0].contributions[1].missing, "rank 1 of group 0 was not recorded");
}

TEST_F(RankOriginsTest, ABadContributionCountsThoughAnotherIsMissing) {
  const Value result = all_reduce(0, made(0, "aten::log", 1, 0), kNan, "0", 0, 3);
  all_reduce(1, made(1, "aten::log", -1, kNan), kNan, "0", 1, 3);
  EXPECT_EQ(root_of(0, result).part, 1u);
}

TEST_F(RankOriginsTest, WithAContributionThatWasNotRecordedItIsUnknown) {
  const Value result = all_reduce(0, made(0, "aten::log", 1, 0), kInf);
  rank(1).call({.name = "c10d::allreduce_", .in = {unrecorded()}, .notes = R"({"group": "0, rank 1 of 2"})"}, {kInf});
  EXPECT_EQ(origin_of(0, result).kind, OriginKind::kUnknown);
  EXPECT_EQ(origin_of(0, result).collectives[0].contributions[1].missing, "what rank 1 gave was not recorded");
}

TEST_F(RankOriginsTest, RanksThatDoNotPairAreNotFollowed) {
  const Value result = all_reduce(0, made(0, "aten::log", 1, 0), kNan);
  const Value bad = made(1, "aten::log", -1, kNan);
  all_reduce(1, bad, kNan);
  all_reduce(1, made(1, "aten::exp", 1, 1), 1);
  EXPECT_EQ(origin_of(0, result).kind, OriginKind::kUnknown);
  EXPECT_NE(origin_of(0, result).collectives[0].problem.find("do not pair"), std::string::npos);
}

TEST_F(RankOriginsTest, AResultThatIsWaitedForLaterBelongsToItsCollective) {
  // c10d: a call is given what the collective wrote. Functional: wait_tensor returns it.
  const std::string_view first = R"({"group": "0, rank 0 of 2"})", second = R"({"group": "0, rank 1 of 2"})";
  const Value x = made(0, "aten::log", 1, 0);
  const Value later = rank(0).call(
      {.name = "c10d::allreduce_", .in = {{.value = x, .written = true}}, .notes = first, .level = Level::kMeta}, {0});
  const Value used =
      rank(0).call({.name = "aten::add", .in = {{.outside = {kNan}, .path = "/0", .parts = {later}}}}, {kNan});
  const Value y = made(0, "aten::log", 1, 0);
  const Value promised = rank(0).call(
      {.name = "_c10d_functional::all_reduce", .in = {{.value = y}}, .notes = first, .level = Level::kMeta}, {0});
  const Value waited = rank(0).call({.name = "_c10d_functional::wait_tensor", .in = {{.value = promised}}}, {kNan});
  const Value bad = made(1, "aten::log", -1, kNan);
  rank(1).call({.name = "c10d::allreduce_", .in = {{.value = bad, .written = true}}, .notes = second}, {kNan});
  const Value worse = made(1, "aten::sqrt", -1, kNan);
  rank(1).call(
      {.name = "_c10d_functional::all_reduce", .in = {{.value = worse}}, .notes = second, .level = Level::kMeta}, {0});
  EXPECT_EQ(op_at(root_of(0, used)), "aten::log");
  EXPECT_EQ(root_of(0, used).part, 1u);
  EXPECT_EQ(op_at(root_of(0, waited)), "aten::sqrt");
  EXPECT_EQ(root_of(0, waited).part, 1u);
}

TEST_F(RankOriginsTest, WhatIsOnPurposeThereIsNoFaultHere) {
  const Value result = all_reduce(0, made(0, "aten::exp", 0, 1), -kInf);
  const Value mask = rank(1).call({"aten::full", {}, "[1], -inf"}, {-kInf});
  all_reduce(1, mask, -kInf);
  EXPECT_EQ(origin_of(0, result).kind, OriginKind::kFromRank);
  EXPECT_FALSE(origin_of(0, result).is_fault());
}

TEST_F(RankOriginsTest, WhatOnlyAnotherRankGoesOnWithIsNotHarmless) {
  // The root of a scatter keeps a finite part and gives Inf to the other rank.
  const Value bad = made(1, "aten::exp", 99, kInf);
  const Value good = made(1, "aten::exp", 0, 1);
  rank(1).call({.name = "c10d::scatter_",
                .in = {{.value = bad, .path = "/1/0"}, {.value = good, .path = "/1/1"}},
                .literals = ", <ProcessGroup>, 1",
                .notes = R"({"group": "0, rank 1 of 2"})"},
               {1});
  const Value received = rank(0).call(
      {.name = "c10d::scatter_", .literals = "[], [], <ProcessGroup>, 1", .notes = R"({"group": "0, rank 0 of 2"})"},
      {kInf});
  EXPECT_EQ(root_of(0, received).part, 1u);
  EXPECT_TRUE(origin_of(0, received).is_fault());
  EXPECT_TRUE(origins().of(1).all().front().is_fault());
}

}  // namespace
}  // namespace ttap
