#include "analyze/diff/align.h"

#include <gtest/gtest.h>

#include "alignment.h"

namespace ttap {
namespace {

using test::aligned;
using test::Lines;
using test::MemorySide;

constexpr AlignOptions kKeysOnly{.structure = false};

TEST(Align, TheSameKeysInTheSameOrder) {
  const MemorySide a{{"x"}, {"x@in"}, {"x::call2"}, {"x/0"}, {"x/1"}};
  EXPECT_EQ(aligned(a, a), (Lines{"x = x", "x@in = x@in", "x::call2 = x::call2", "x/0 = x/0", "x/1 = x/1"}));
  for (const Match& match : align(a, a)) EXPECT_EQ(match.confidence, 1);
}

TEST(Align, EveryPartOfAKeyTellsTensorsApart) {
  const MemorySide a{{"x"}};
  for (const char* other : {"y", "x@in", "x::call2", "x/0"})
    EXPECT_EQ(aligned(a, MemorySide{{other}}, kKeysOnly).size(), 2u) << other;
}

TEST(Align, AnotherOrderIsFollowedInA) {
  const MemorySide a{{"p"}, {"q"}, {"r"}, {"s"}}, b{{"s"}, {"q"}, {"p"}, {"r"}};
  EXPECT_EQ(aligned(a, b, kKeysOnly), (Lines{"p = p", "q = q", "r = r", "s = s"}));
}

TEST(Align, WhatOnlyOneSideHasStandsWhereItRan) {
  const MemorySide a{{"p"}, {"only_a"}, {"q"}, {"r"}}, b{{"b0"}, {"p"}, {"b1"}, {"b2"}, {"q"}, {"r"}, {"b3"}};
  EXPECT_EQ(aligned(a, b, kKeysOnly), (Lines{"- b0", "p = p", "- b1", "- b2", "only_a -", "q = q", "r = r", "- b3"}));
}

TEST(Align, ASideWithoutTensors) {
  const MemorySide none{}, some{{"x"}};
  EXPECT_EQ(aligned(none, none), Lines{});
  EXPECT_EQ(aligned(some, none), Lines{"x -"});
  EXPECT_EQ(aligned(none, some), Lines{"- x"});
}

TEST(Align, AKeyThatOccursTwiceIsMatchedOnceEach) {
  const MemorySide twice{{"x"}, {"x"}, {"y"}}, once{{"y"}, {"x"}};
  EXPECT_EQ(aligned(twice, once, kKeysOnly), (Lines{"x = x", "x -", "y = y"}));
  EXPECT_EQ(aligned(once, twice, kKeysOnly), (Lines{"y = y", "x = x", "- x"}));
  EXPECT_EQ(aligned(twice, twice, kKeysOnly), (Lines{"x = x", "x = x", "y = y"}));
}

TEST(Align, ManyKeysWithGapsOnBothSidesAllFindEachOther) {
  MemorySide a{}, b{};
  for (int i = 0; i < 5000; ++i) {
    if (i % 7 != 0) a.add({"n" + std::to_string(i)});
    if (i % 5 != 0) b.add({"n" + std::to_string(i)});
  }
  size_t both = 0;
  for (const Match& match : align(a, b, kKeysOnly)) {
    if (match.by != MatchedBy::kKey) continue;
    EXPECT_EQ(a.tensor(match.a).name, b.tensor(match.b).name);
    ++both;
  }
  size_t expected = 0;
  for (int i = 0; i < 5000; ++i) expected += i % 7 != 0 && i % 5 != 0;
  EXPECT_EQ(both, expected);
}

TEST(Align, TheFilterLooksAtAsKeyOrAtBsWhereAHasNone) {
  const std::function<bool(std::string_view)> wanted = [](std::string_view key) { return key.starts_with("keep"); };
  const auto map = NameMap::parse("other: keep.1", "map.yaml");
  ASSERT_TRUE(map.ok());
  const MemorySide a{{"keep.1"}, {"drop.1"}, {"keep.2@in"}}, b{{"other"}, {"drop.1"}, {"keep.3", {9}}, {"drop.2"}};
  EXPECT_EQ(aligned(a, b, {.map = &*map, .wanted = &wanted}), (Lines{"keep.1 map other", "- keep.3", "keep.2@in -"}));
}

TEST(NameMap, RulesApplyInOrderToTheWholeKey) {
  const auto map = NameMap::parse(
      "- '^blocks\\.(\\d+)\\.': 'model.layers.$1.'\n- w(q|k): ${1}_proj\n- '@in': '@input'\n", "map.yaml");
  ASSERT_TRUE(map.ok());
  EXPECT_EQ(map->apply("blocks.3.attn.wq@in/0"), "model.layers.3.attn.q_proj@input/0");
  EXPECT_EQ(map->apply("head"), "head");
  EXPECT_EQ(map->unused(), Lines{});
}

TEST(NameMap, SaysWhichRulesChangedNothing) {
  const auto map = NameMap::parse("a: b\nx: y\nkept: kept\n", "map.yaml");
  ASSERT_TRUE(map.ok());
  EXPECT_EQ(map->apply("a kept"), "b kept");
  EXPECT_EQ(map->unused(), (Lines{"x", "kept"}));
}

TEST(NameMap, AGroupOfAnotherAlternativeIsEmpty) {
  const auto map = NameMap::parse("'(a)1|(b)2': '<$1$2>'", "map.yaml");
  ASSERT_TRUE(map.ok());
  EXPECT_EQ(map->apply("a1 b2"), "<a> <b>");
}

TEST(NameMap, ErrorsNameFileAndLine) {
  for (const auto& [yaml, said] : std::vector<std::pair<std::string, std::string>>{
           {"a: b\n'(': c\n", "line 2: bad pattern '('"},
           {"a: b\n\n'(x)': '$2'\n", "line 3: the replacement '$2' does not fit the pattern '(x)'"},
           {"'(?x) a # why': '${'\n", "line 1: the replacement '${' does not fit"},
           {"a\n", "line 1: neither a map"}}) {
    const auto map = NameMap::parse(yaml, "map.yaml");
    ASSERT_FALSE(map.ok()) << yaml;
    const std::string error = map.error().describe();
    EXPECT_NE(error.find(said), std::string::npos) << error;
    EXPECT_NE(error.find("map.yaml"), std::string::npos) << error;
  }
  EXPECT_EQ(NameMap::read("/nobody/map.yaml").error().code, ErrorCode::kNotFound);
}

TEST(Align, WhatTheMapRenamesGoesByItsNewNameAndTheRestByKey) {
  const auto map = NameMap::parse("'^h\\.(\\d+)': layers.$1", "map.yaml");
  ASSERT_TRUE(map.ok());
  const MemorySide a{{"layers.0"}, {"layers.1"}, {"layers.2", {8}}}, b{{"layers.0"}, {"h.0"}, {"h.1"}, {"h.7", {9}}};
  EXPECT_EQ(aligned(a, b, {.map = &*map}),
            (Lines{"- layers.0", "layers.0 map h.0", "layers.1 map h.1", "- h.7", "layers.2 -"}));
}

TEST(Align, TheMapCanMoveCalls) {
  const auto map = NameMap::parse("- '^x::call3': 'x::call2'\n", "map.yaml");
  ASSERT_TRUE(map.ok());
  const MemorySide a{{"x"}, {"x::call2"}}, b{{"x"}, {"x::call2"}, {"x::call3"}};
  EXPECT_EQ(aligned(a, b, {.map = &*map}), (Lines{"x = x", "- x::call2", "x::call2 map x::call3"}));
}

}  // namespace
}  // namespace ttap
