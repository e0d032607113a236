#include "analyze/collectives/collective_call.h"

#include <gtest/gtest.h>

namespace ttap {
namespace {

constexpr std::string_view kSecondOfTwo = R"({"group": "0 (default_pg), rank 1 of 2"})";

std::optional<CollectiveCall> read(std::string_view name, std::string_view arguments,
                                   std::string_view notes = kSecondOfTwo) {
  EventRecord event;
  event.name = name;
  event.kind = "op";
  event.arguments = arguments;
  event.notes = notes;
  return collective_of(event);
}

UseRecord argument(std::string_view path, bool written = false) {
  return {.role = "in", .path = path, .written = written};
}

TEST(CollectiveCall, HasItsGroupAndTheRankInIt) {
  const auto call = read("backward:c10d::allreduce_", "[%0], <ProcessGroup>, ReduceOp.SUM, None, False");
  ASSERT_TRUE(call.has_value());
  EXPECT_EQ(call->op, "c10d::allreduce_");
  EXPECT_EQ(call->group, "0 (default_pg)");
  EXPECT_EQ(call->group_rank, 1u);
  EXPECT_EQ(call->group_size, 2u);
  EXPECT_EQ(call->contributors, Contributors::kAll);
  EXPECT_TRUE(contributes(*call, argument("/0/0", true), 0, "/0/0"));
}

TEST(CollectiveCall, AnOperatorThatExchangesNothingIsNone) {
  EXPECT_FALSE(read("aten::add.Tensor", "%0, 1"));
  EXPECT_FALSE(read("_c10d_functional::wait_tensor", "%0"));
}

TEST(CollectiveCall, WithoutAGroupThatCanBeReadItBelongsToNoChannel) {
  for (const std::string_view notes :
       {"", "{}", R"({"group": "0"})", R"({"group": "0, rank 2 of 2"})", R"({"group": 3})"}) {
    const auto call = read("c10d::allreduce_", "[%0]", notes);
    ASSERT_TRUE(call.has_value()) << notes;
    EXPECT_TRUE(call->channel.empty()) << notes;
  }
}

TEST(CollectiveCall, OfABroadcastOnlyTheRootContributes) {
  const auto mine = read("c10d::broadcast_", "[%0], <ProcessGroup>, 1, 0, False");
  EXPECT_TRUE(contributes(*mine, argument("/0/0", true), 0, "/0/0"));
  const auto others = read("c10d::broadcast_", "[%0], <ProcessGroup>, 0, 0, False");
  EXPECT_FALSE(contributes(*others, argument("/0/0", true), 1, "/0/0"));
  EXPECT_EQ(read("_c10d_functional::broadcast", "%0, 1, '0'")->root, 1u);
}

TEST(CollectiveCall, MemoryForTheResultIsNoContribution) {
  for (const std::string_view name : {"c10d::_allgather_base_", "c10d::allgather_", "c10d::_reduce_scatter_base_",
                                      "c10d::alltoall_base_", "c10d::gather_"}) {
    const auto call = read(name, "%0, %1, <ProcessGroup>");
    EXPECT_FALSE(contributes(*call, argument("/0", true), 1, "/0")) << name;
    EXPECT_TRUE(contributes(*call, argument("/1"), 1, "/0")) << name;
  }
}

TEST(CollectiveCall, AListHasAnEntryForEachRank) {
  const auto gathered = read("c10d::allgather_", "[[%0, %1]], [%2], <ProcessGroup>");
  EXPECT_TRUE(contributes(*gathered, argument("/1/0"), 0, "/0/1"));
  EXPECT_FALSE(contributes(*gathered, argument("/1/0"), 0, "/0/0"));  // that is rank 0's
  const auto exchanged = read("c10d::alltoall_", "[%0, %1], [%2, %3], <ProcessGroup>");
  EXPECT_TRUE(contributes(*exchanged, argument("/1/0"), 0, "/0/1"));
  EXPECT_FALSE(contributes(*exchanged, argument("/1/1"), 0, "/0/1"));  // that goes to rank 1
}

TEST(CollectiveCall, ASendAndItsReceiveAreOfOneChannel) {
  const auto sent = read("c10d::send", "[%0], <ProcessGroup>, 0, 7");
  const auto received =
      read("c10d::recv_", "[%0], <ProcessGroup>, 1, 7", R"({"group": "0 (default_pg), rank 0 of 2"})");
  EXPECT_EQ(sent->channel, received->channel);
  EXPECT_EQ(sent->root, 1u);
  EXPECT_EQ(received->root, 1u);
  EXPECT_NE(read("c10d::send", "[%0], <ProcessGroup>, 0, 8")->channel, sent->channel);
  EXPECT_TRUE(read("c10d::recv_any_source_", "[%0], <ProcessGroup>, 7")->channel.empty());
}

TEST(CollectiveCall, OrdinalsReadAsEnglish) {
  EXPECT_EQ(ordinal(1) + ordinal(2) + ordinal(3) + ordinal(4), "1st2nd3rd4th");
  EXPECT_EQ(ordinal(11) + ordinal(12) + ordinal(13) + ordinal(21) + ordinal(112), "11th12th13th21st112th");
}

}  // namespace
}  // namespace ttap
