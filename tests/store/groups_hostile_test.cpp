// Descriptions of quantized tensors that somebody made to do harm.
#include <gtest/gtest.h>

#include "sample_groups.h"
#include "store/foreign/group_note.h"
#include "store/graph/graph_index.h"

namespace ttap {
namespace {

using test::sample_description;
using test::sample_weight;

// With a member that nobody knows: lists inside lists.
std::string nested_description(size_t depth) {
  return R"({"format": {"element": "e4m3", "odd": )" + std::string(depth, '[') + std::string(depth, ']') +
         R"(}, "parts": ["payload"]})";
}

bool is_refused(const std::string& text) {
  const auto read = group_description_from_json(text);
  return !read.ok() && read.error().code == ErrorCode::kCorrupt;
}

TEST(HostileDescription, HasALimitOfDepth) {
  EXPECT_TRUE(group_description_from_json(nested_description(5)).ok());
  for (const size_t depth : {9u, 20'000u}) EXPECT_TRUE(is_refused(nested_description(depth))) << depth;
  EXPECT_FALSE(quant_format_from_json(R"({"odd": )" + std::string(10, '[') + std::string(10, ']') + "}").ok());
}

TEST(HostileDescription, HasALimitOfLengthAndParts) {
  std::string padded = sample_description();
  padded.append((64 << 10) - padded.size(), ' ');
  EXPECT_TRUE(group_description_from_json(padded).ok());
  EXPECT_TRUE(is_refused(padded + " "));
  GroupDescription many{.format = sample_weight().format, .parts = std::vector<std::string>(16, "payload")};
  EXPECT_TRUE(group_description_from_json(to_json(many)).ok());
  many.parts.push_back("scale");
  EXPECT_TRUE(is_refused(to_json(many)));
}

TEST(HostileDescription, OfAnotherFormatIsNotWalked) {
  const auto note = [&](size_t depth) {
    return R"([{"name":"fc","call":1,"role":"param","path":"/weight","dtype":"f32","shape":[4],"description":)" +
           nested_description(depth) + "}]";
  };
  ForeignTensors tensors;
  const Status shallow = add_groups(note(5), tensors);
  ASSERT_TRUE(shallow.ok()) << shallow.error().describe();
  EXPECT_TRUE(group_description_from_json(tensors.tensors.at(0).group).ok());
  const Status deep = add_groups(note(1'000'000), tensors);
  ASSERT_FALSE(deep.ok());
  EXPECT_EQ(deep.error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(tensors.tensors.size(), 1u);
}

TEST(HostileDescription, StaysATextInTheIndexOfAGraph) {
  StoredPass pass;
  pass.info.metadata_json = nested_description(1'000'000);
  pass.tensors.push_back({.name = "fc", .role = "param", .path = "/weight", .level = Level::kMeta});
  pass.tensors.back().group = nested_description(1'000'000);
  const auto index = to_json(GraphIndex{.pass = &pass});
  ASSERT_TRUE(index.ok()) << index.error().describe();
  const auto read = parse_graph_index(*index, "graph_1/0");
  ASSERT_TRUE(read.ok()) << read.error().describe();
  EXPECT_EQ(read->tensors.at(0).group, pass.tensors[0].group);
}

}  // namespace
}  // namespace ttap
