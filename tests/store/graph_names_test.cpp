#include "store/graph/graph_names.h"

#include <gtest/gtest.h>

#include <set>

#include "store/graph/graph_notes.h"
#include "store/sources/run_layout.h"

namespace ttap {
namespace {

TEST(GraphNames, AreNodeTargetRoleAndPlace) {
  EXPECT_EQ(file_stem_of({"add_1", "aten.add.Tensor", "in", "/0"}), "add_1-aten.add.Tensor.INPUT.0");
  EXPECT_EQ(file_stem_of({"add_1", "aten.add.Tensor", "out", ""}), "add_1-aten.add.Tensor.OUTPUT.0");
  EXPECT_EQ(file_stem_of({"cat", "aten.cat.default", "in", "/0/1"}), "cat-aten.cat.default.INPUT.0.1");
  EXPECT_EQ(file_stem_of({"add", "aten.add.Tensor", "in", "/alpha"}), "add-aten.add.Tensor.INPUT.alpha");
  EXPECT_EQ(file_stem_of({"add_", "aten.add_.Tensor", "after", "/0"}), "add_-aten.add_.Tensor.AFTER.0");
}

// What could be taken for one another is not.
TEST(GraphNames, AreDifferentForDifferentTensorsAndReadBack) {
  const std::vector<NodeTensor> tensors = {
      {"a", "b.INPUT.0", "in", "/0"}, {"a", "b", "in", "/0/INPUT/0"}, {"a", "b.INPUT", "in", "/0"},
      {"a-b", "c", "in", "/0"},       {"a", "b-c", "in", "/0"},       {"a", "<built-in function add>", "in", "/0"},
      {"a/b", "c", "in", "/0"},       {"a%2Fb", "c", "in", "/0"},     {"a", "c", "in", "/x.y"},
      {"a", "c", "in", "/x/y"},       {"a", "c", "out", "/0"},        {"a", "c", "after", "/0"},
      {"a", "c%", "in", "/0"},        {"a", "c%25", "in", "/0"},      {"ä", "c", "in", "/0"},
      {"a", "c.OUTPUT", "in", "/0"},  {"a", "c", "in", "/k=v"},       {"..", "c", "in", "/0"}};
  std::set<std::string> stems;
  for (const NodeTensor& tensor : tensors) {
    const std::string stem = file_stem_of(tensor);
    EXPECT_TRUE(stems.insert(stem).second) << stem;
    EXPECT_EQ(stem.find_first_of("/ <>:=\"\\"), std::string::npos) << stem;
    const auto read = parse_file_stem(stem);
    ASSERT_TRUE(read) << stem;
    EXPECT_EQ(read->node, tensor.node);
    EXPECT_EQ(read->target, tensor.target);
    EXPECT_EQ(read->role, tensor.role);
    EXPECT_EQ(read->path, tensor.path);
    EXPECT_EQ(read->order, "");
  }
}

TEST(GraphNames, ThatAreTooLongAreCutAndStayApart) {
  const std::string node(300, 'n');
  const std::string one = file_stem_of({node, "aten.add.Tensor", "in", "/0"});
  const std::string other = file_stem_of({node, "aten.add.Tensor", "in", "/1"});
  EXPECT_LE(one.size(), 200u);
  EXPECT_NE(one, other);
}

TEST(GraphNames, ATimestampIsNotPartOfThem) {
  const auto read = parse_file_stem("add_1-aten.add.Tensor.INPUT.1.20251017071211190258");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->path, "/1");
  EXPECT_EQ(read->order, "20251017071211190258");
  const auto nested = parse_file_stem("cat-aten.cat.default.INPUT.0.1.20251017071211190258");
  ASSERT_TRUE(nested);
  EXPECT_EQ(nested->path, "/0/1");
}

TEST(GraphNames, OtherNamesAreNot) {
  for (const char* stem : {"", "x", "model.layers.0", "a-b", "a-b.INPUT", "a-b.INPUT.", "-b.INPUT.0", "a-b.INPUT..0"})
    EXPECT_FALSE(parse_file_stem(stem)) << stem;
}

TEST(GraphNames, RanksHaveTheirWorld) {
  EXPECT_EQ(graph_rank_directory_name(8, 3), "worldsize8_global_rank3");
  EXPECT_EQ(parse_rank_directory_name("worldsize8_global_rank3")->rank, 3u);
  EXPECT_EQ(parse_rank_directory_name(graph_rank_directory_name(8, 3, 77))->pid, 77);
  EXPECT_EQ(rank_directory_name(3, 77), "rank3_pid77");
  EXPECT_EQ(rank_directory_name(3, 77, 2), "rank3_pid77_2");
  EXPECT_EQ(parse_rank_directory_name("rank3_pid77_2")->pid, 77);
  for (const char* name :
       {"worldsize8", "worldsize8_global_rank", "worldsize8_global_rank3x", "worldsize_global_rank3"})
    EXPECT_FALSE(parse_rank_directory_name(name)) << name;
}

TEST(GraphNotes, TargetsAreTheOperatorsOfATrace) {
  EXPECT_EQ(operator_of_target("aten.add.Tensor"), "aten::add.Tensor");
  EXPECT_EQ(operator_of_target("aten.relu.default"), "aten::relu");
  EXPECT_EQ(operator_of_target("torch.ops.aten.mm.default"), "aten::mm");
  EXPECT_EQ(operator_of_target("torch.nn.functional.linear"), "torch::linear");
  EXPECT_EQ(operator_of_target("_operator.add"), "operator::add");
  EXPECT_EQ(operator_of_target("view"), "method::view");
}

}  // namespace
}  // namespace ttap
