#include "analyze/diff/sides/rule_file.h"

#include <gtest/gtest.h>

#include "scratch.h"

namespace ttap {
namespace {

std::vector<std::string> listed(std::string_view yaml) {
  const auto rules = parse_rules(yaml, "map.yaml");
  if (!rules.ok()) return {rules.error().describe()};
  std::vector<std::string> lines;
  for (const RuleLine& rule : *rules)
    lines.push_back(std::to_string(rule.line) + " " + rule.pattern + " > " + rule.value);
  return lines;
}

std::string error_of(std::string_view yaml) {
  const auto rules = parse_rules(yaml, "map.yaml");
  return rules.ok() ? "" : rules.error().describe();
}

TEST(RuleFile, AMapGivesItsRulesInOrderWithTheirLines) {
  EXPECT_EQ(listed("# names\nz.*: a\n\n'^b\\.(\\d+)': 'layers.$1'\na: ''\n"),
            (std::vector<std::string>{"2 z.* > a", "4 ^b\\.(\\d+) > layers.$1", "5 a > "}));
}

TEST(RuleFile, AListOfMapsIsReadInOrder) {
  EXPECT_EQ(listed("- b: 1\n  c: two\n- a: concat -1\n"),
            (std::vector<std::string>{"1 b > 1", "2 c > two", "3 a > concat -1"}));
}

TEST(RuleFile, ThePatternOfTwoRulesMayBeTheSame) {
  EXPECT_EQ(listed("a: b\na: c\n"), (std::vector<std::string>{"1 a > b", "2 a > c"}));
}

TEST(RuleFile, ErrorsNameFileLineAndMend) {
  for (const auto& [yaml, said] : std::vector<std::pair<std::string, std::string>>{
           {"a: b\n\"x\\.y\": c\n", "line 2: not YAML: unknown escape character"},
           {"a: b\n[x]: c\n", "line 2: a pattern must be a text"},
           {"a: b\nc:\n", "line 2: the value of 'c' is missing"},
           {"a: b\nc: [d]\n", "line 2: the value of 'c' is a list or a map"},
           {"- a: b\n- c\n", "line 2: this entry of the list is not a rule"},
           {"just words\n", "line 1: neither a map of rules nor a list of them"},
           {"a: b\n---\nc: d\n", "line 3: a second YAML document begins"},
           {",", ""},
           {"]", ""},
           {"", "no rules in it"},
           {"{}", "no rules in it"}}) {
    const std::string error = error_of(yaml);
    EXPECT_NE(error.find(said), std::string::npos) << yaml << " gave: " << error;
    EXPECT_NE(error.find("map.yaml"), std::string::npos) << error;
    EXPECT_NE(error.find("'pattern': 'value'"), std::string::npos) << error;
  }
}

TEST(RuleFile, ARuleMayBeAMapOfFields) {
  const auto rules = parse_rules("- a: b\n- slice: {a: x, of: [y, 'z'], at: '[..., 0:4]'}\n", "map.yaml",
                                 RuleValues::kTextsAndMaps);
  ASSERT_TRUE(rules.ok()) << rules.error().describe();
  EXPECT_TRUE(rules->front().fields.empty());
  const RuleLine& rule = rules->back();
  EXPECT_EQ(rule.line, 2);
  ASSERT_EQ(rule.fields.size(), 3u);
  EXPECT_EQ(rule.fields[1].values, (std::vector<std::string>{"y", "z"}));
  EXPECT_TRUE(rule.fields[1].is_list && !rule.fields[2].is_list);
  EXPECT_FALSE(parse_rules("- slice: {a: x}\n", "shards.yaml").ok());
  for (const char* yaml : {"slice: {a: }", "slice: {a: {b: c}}", "slice: {a: [[b]]}", "slice: {[a]: b}"}) {
    const auto bad = parse_rules(yaml, "map.yaml", RuleValues::kTextsAndMaps);
    ASSERT_FALSE(bad.ok()) << yaml;
    EXPECT_NE(bad.error().describe().find("line 1: "), std::string::npos) << bad.error().describe();
  }
}

TEST(RuleFile, NestingWithoutEndIsAnError) { EXPECT_NE(error_of(std::string(100000, '[')), ""); }

TEST(RuleFile, ReadsAFileAndSaysWhenThereIsNone) {
  const ScratchDirectory scratch;
  const std::string text = "a: b\n";
  write_file(scratch / "rules.yaml", std::as_bytes(std::span(text)));
  const auto rules = read_rules((scratch / "rules.yaml").string());
  ASSERT_TRUE(rules.ok());
  EXPECT_EQ((*rules)[0].value, "b");

  const auto missing = read_rules((scratch / "nobody.yaml").string());
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_NE(missing.error().describe().find("nobody.yaml"), std::string::npos);

  const auto folder = read_rules(scratch.path().string());
  ASSERT_FALSE(folder.ok());
  EXPECT_EQ(folder.error().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace ttap
