#include "analyze/collectives/collective_pairs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <deque>

namespace ttap {
namespace {

// The collectives of a rank, by hand.
class MadeCalls {
 public:
  MadeCalls& add(std::string name, std::string_view group, uint32_t rank, uint32_t size, std::string arguments = "[%0]",
                 uint32_t parent = kNoEvent) {
    EventRecord event;
    event.name = texts_.emplace_back(std::move(name));
    event.kind = "op";
    event.parent = parent;
    event.arguments = texts_.emplace_back(std::move(arguments));
    event.notes = texts_.emplace_back(fmt::format(R"({{"group": "{}, rank {} of {}"}})", group, rank, size));
    events_.push_back(event);
    return *this;
  }
  size_t event_count() const { return events_.size(); }
  EventRecord event(size_t index) const { return events_[index]; }

 private:
  std::deque<std::string> texts_;
  std::vector<EventRecord> events_;
};

RankCollectives of(uint32_t rank, const MadeCalls& made) { return {.rank = rank, .calls = CollectiveCalls(made)}; }

MadeCalls reductions(uint32_t rank, size_t count, uint32_t size = 2) {
  MadeCalls made;
  for (size_t i = 0; i < count; ++i) made.add("c10d::allreduce_", "0", rank, size);
  return made;
}

TEST(CollectivePairs, TheNthOfAGroupIsOneWithTheNthOfAnotherRank) {
  const CollectivePairs pairs({of(0, reductions(0, 3)), of(1, reductions(1, 3))});
  const auto paired = pairs.contributors_to(0, 2, "/0/0");
  EXPECT_EQ(paired.problem, "");
  ASSERT_EQ(paired.contributors.size(), 2u);
  EXPECT_EQ(paired.contributors[1].part, 1u);
  EXPECT_EQ(paired.contributors[1].call->event, 2u);
  EXPECT_EQ(paired.contributors[1].call->number, 3u);
}

TEST(CollectivePairs, GroupsAreCountedEachByItself) {
  MadeCalls first, second;
  first.add("c10d::allreduce_", "tp", 0, 2).add("c10d::allreduce_", "0", 0, 2);
  second.add("c10d::allreduce_", "0", 1, 2).add("c10d::allreduce_", "tp", 1, 2);
  const CollectivePairs pairs({of(0, first), of(1, second)});
  EXPECT_EQ(pairs.contributors_to(0, 0, "").contributors[1].call->event, 1u);
  EXPECT_EQ(pairs.contributors_to(0, 1, "").contributors[1].call->event, 0u);
}

TEST(CollectivePairs, GroupsOfOtherRanksDoNotMix) {
  std::vector<RankCollectives> ranks;
  for (uint32_t rank = 0; rank < 4; ++rank)
    ranks.push_back(of(rank, MadeCalls().add("c10d::allreduce_", rank < 2 ? "1" : "2", rank % 2, 2)));
  const CollectivePairs pairs(std::move(ranks));
  const auto paired = pairs.contributors_to(2, 0, "");
  ASSERT_EQ(paired.contributors.size(), 2u);
  EXPECT_EQ(paired.contributors[0].part, 2u);
  EXPECT_EQ(paired.contributors[1].part, 3u);
}

TEST(CollectivePairs, ARankThatIsNotThereIsNamed) {
  const CollectivePairs pairs({of(0, reductions(0, 1, 3)), of(2, reductions(2, 1, 3))});
  const auto paired = pairs.contributors_to(0, 0, "");
  EXPECT_EQ(paired.problem, "");
  ASSERT_EQ(paired.contributors.size(), 3u);
  EXPECT_FALSE(paired.contributors[1].part.has_value());
  EXPECT_EQ(paired.contributors[1].missing, "rank 1 of group 0 was not recorded");
  EXPECT_EQ(paired.contributors[2].part, 1u);
}

TEST(CollectivePairs, RanksWithDifferingCountsDoNotPair) {
  const CollectivePairs pairs({of(0, reductions(0, 2)), of(1, reductions(1, 3))});
  const auto paired = pairs.contributors_to(0, 0, "");
  EXPECT_TRUE(paired.contributors.empty());
  EXPECT_EQ(paired.problem, "the ranks do not pair: of group 0 this pass has 2 on rank 0 and 3 on rank 1");
}

TEST(CollectivePairs, ARankThatDiedPairsUpToWhereItsRecordingEnds) {
  std::vector<RankCollectives> ranks = {of(0, reductions(0, 3)), of(1, reductions(1, 2))};
  ranks[1].recorded_to_end = false;
  const CollectivePairs pairs(std::move(ranks));
  ASSERT_EQ(pairs.contributors_to(0, 1, "").problem, "");
  EXPECT_EQ(pairs.contributors_to(0, 1, "").contributors[1].part, 1u);
  const auto last = pairs.contributors_to(0, 2, "");
  EXPECT_EQ(last.problem, "");
  EXPECT_FALSE(last.contributors[1].part.has_value());
  EXPECT_EQ(last.contributors[1].missing, "the recording of rank 1 ends before it");
}

TEST(CollectivePairs, WhereTheOtherRankDiedItsMissingCallsAreNoReasonForTheLiving) {
  std::vector<RankCollectives> ranks = {of(0, reductions(0, 2)), of(1, reductions(1, 3))};
  ranks[1].recorded_to_end = false;  // the longer one
  EXPECT_NE(CollectivePairs(std::move(ranks)).contributors_to(0, 0, "").problem, "");
}

TEST(CollectivePairs, OtherOperatorsInTheSamePlaceDoNotPair) {
  MadeCalls first, second;
  first.add("c10d::allreduce_", "0", 0, 2).add("c10d::_allgather_base_", "0", 0, 2);
  second.add("c10d::_allgather_base_", "0", 1, 2).add("c10d::allreduce_", "0", 1, 2);
  const CollectivePairs pairs({of(0, first), of(1, second)});
  EXPECT_NE(pairs.contributors_to(0, 0, "").problem.find("the 1st of group 0 is c10d::allreduce_"), std::string::npos);
}

TEST(CollectivePairs, RanksThatLostEventsDoNotPair) {
  std::vector<RankCollectives> ranks = {of(0, reductions(0, 2)), of(1, reductions(1, 2))};
  ranks[1].lost_events = 5;
  EXPECT_NE(CollectivePairs(std::move(ranks)).contributors_to(0, 0, "").problem.find("rank 1 lost 5 events"),
            std::string::npos);
}

TEST(CollectivePairs, TwoRanksInOnePlaceOfAGroupDoNotPair) {
  const CollectivePairs pairs({of(0, reductions(0, 1)), of(2, reductions(0, 1))});
  EXPECT_NE(pairs.contributors_to(0, 0, "").problem.find("ranks 0 and 2 are both rank 0 of group 0"),
            std::string::npos);
}

TEST(CollectivePairs, ACollectiveInsideAnotherIsCountedOnce) {
  MadeCalls made;
  made.add("_c10d_functional_autograd::all_gather_into_tensor", "0", 0, 2, "%0, 2, '0'");
  made.add("_c10d_functional::all_gather_into_tensor", "0", 0, 2, "%0, 2, '0'", 0);
  made.add("_c10d_functional::all_reduce", "0", 0, 2, "%0, 'sum', '0'");
  const CollectiveCalls calls(made);
  ASSERT_EQ(calls.all().size(), 2u);
  EXPECT_EQ(calls.at(1)->event, 0u);
  EXPECT_EQ(calls.at(2)->number, 2u);
}

TEST(CollectivePairs, AReceivePairsWithItsSend) {
  MadeCalls first, second;
  first.add("c10d::recv_", "0", 0, 4, "[%0], <ProcessGroup>, 1, 0");
  second.add("c10d::send", "0", 1, 4, "[%0], <ProcessGroup>, 2, 0")
      .add("c10d::send", "0", 1, 4, "[%0], <ProcessGroup>, 0, 0");
  const CollectivePairs pairs({of(0, first), of(1, second)});
  const auto paired = pairs.contributors_to(0, 0, "/0/0");
  ASSERT_EQ(paired.contributors.size(), 1u);
  EXPECT_EQ(paired.contributors[0].part, 1u);
  EXPECT_EQ(paired.contributors[0].call->event, 1u);
}

}  // namespace
}  // namespace ttap
