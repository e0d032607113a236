#include "ttap/key.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace ttap {
namespace {

Key key_of(std::string_view text) {
  auto parsed = parse_key(text);
  EXPECT_TRUE(parsed.ok()) << text;
  return parsed.ok() ? *parsed : Key{};
}

TEST(Key, PrintsOnlyWhatIsNotTheDefault) {
  EXPECT_EQ(to_string(Key{.name = "model.layers.0.o_proj"}), "model.layers.0.o_proj");
  EXPECT_EQ(to_string(Key{.name = "vision.patch_embed", .call = 2}), "vision.patch_embed::call2");
  EXPECT_EQ(to_string(Key{.name = "mlp", .role = "in", .path = "/0"}), "mlp@in/0");
  EXPECT_EQ(to_string(Key{.name = "mlp", .path = "/1/attn"}), "mlp/1/attn");
  EXPECT_EQ(to_string(Key{.name = "a", .call = 3, .role = "grad_out", .path = "/x"}), "a::call3@grad_out/x");
}

TEST(Key, ParsesTheGrammar) {
  EXPECT_EQ(key_of("mlp"), (Key{.name = "mlp"}));
  EXPECT_EQ(key_of("mlp::call12@in/0/k"), (Key{.name = "mlp", .call = 12, .role = "in", .path = "/0/k"}));
  EXPECT_EQ(key_of("mlp/a@b"), (Key{.name = "mlp", .path = "/a@b"}));
  EXPECT_EQ(key_of("mlp/a::call2"), (Key{.name = "mlp", .path = "/a::call2"}));
  EXPECT_EQ(key_of("mlp::call4294967295").call, 4294967295u);
}

TEST(Key, ParsesTheLongFormsOfTheDefaults) {
  EXPECT_EQ(key_of("mlp::call1@out"), (Key{.name = "mlp"}));
  EXPECT_EQ(key_of("%6dlp"), (Key{.name = "mlp"}));
}

TEST(Key, NamesMayHoldWhatTheGrammarUses) {
  EXPECT_EQ(to_string(Key{.name = "a/b"}), "a%2Fb");
  EXPECT_EQ(to_string(Key{.name = "a@in"}), "a%40in");
  EXPECT_EQ(to_string(Key{.name = "50%"}), "50%25");
  EXPECT_EQ(to_string(Key{.name = "%add_1", .role = "in", .path = "/0"}), "%add_1@in/0");
  EXPECT_EQ(to_string(Key{.name = "%2D"}), "%252D");
  EXPECT_EQ(key_of("%25add_1"), (Key{.name = "%add_1"})) << "escaped though it need not be";
  EXPECT_EQ(to_string(Key{.name = "f::call2"}), "f%3A:call2");
  EXPECT_EQ(to_string(Key{.name = "aten::add.Tensor"}), "aten::add.Tensor");
  for (std::string name : {"a/b", "/", "@", "%", "%2F", "%add", "%_", "%%a", "x%add", "f::call2", "::call",
                           "::call::call", ":::call3", "x::", "x:", "::cal", "a@b/c%::call9", "\xFF\x80 \n\t"})
    for (uint32_t call : {1u, 2u})
      for (std::string role : {"out", "in"})
        for (std::string path : {"", "/0", "/::call2@in"}) {
          const Key key{name, call, role, path};
          EXPECT_EQ(key_of(to_string(key)), key) << to_string(key);
        }
}

TEST(Key, AnyNameAndPathComeBackAndNoTwoPrintAlike) {
  // Few letters, so that the grammar's own pieces turn up all the time.
  const std::vector<std::string> pieces = {":", "::", "call", "::call", "1", "2", "@",   "in",
                                           "/", "%",  "%2F",  "%ad",    "a", ".", "\xC3"};
  std::mt19937 random(11);
  const auto text = [&](size_t most) {
    std::string out;
    for (size_t n = random() % (most + 1); n > 0; --n)
      out +=
          random() % 8 == 0 ? std::string(1, static_cast<char>(1 + random() % 255)) : pieces[random() % pieces.size()];
    return out;
  };
  std::map<std::string, Key> seen;
  for (int i = 0; i < 50000; ++i) {
    Key key{.name = text(5), .call = 1 + static_cast<uint32_t>(random() % 3), .role = random() % 2 != 0 ? "in" : "out"};
    if (key.name.empty()) continue;
    for (size_t n = random() % 3; n > 0; --n) key.path = append_path(key.path, text(2));
    const std::string printed = to_string(key);
    ASSERT_EQ(key_of(printed), key) << printed;
    const auto [place, is_new] = seen.emplace(printed, key);
    ASSERT_TRUE(is_new || place->second == key) << printed;
  }
}

TEST(Key, StepsOfAPathNeverMeet) {
  EXPECT_EQ(append_path("", "0"), "/0");
  EXPECT_EQ(append_path("/1", "attn"), "/1/attn");
  EXPECT_EQ(append_path("", "a/b"), "/a%2Fb");
  EXPECT_NE(append_path("", "a/b"), append_path(append_path("", "a"), "b"));
  EXPECT_NE(append_path("", "a%2Fb"), append_path("", "a/b"));
  EXPECT_EQ(append_path("", ""), "/");
}

TEST(Key, WhatIsNotAKeyIsAnErrorThatSaysWhy) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "the name is empty"},
      {"@in", "the name is empty"},
      {"/0", "the name is empty"},
      {"::call2", "the name is empty"},
      {"a@", "role"},
      {"a@in-put", "role"},
      {"a@in@out", "role"},
      {"a@in::call2", "role"},
      {"a::call", "number"},
      {"a::call0", "number"},
      {"a::call-1", "number"},
      {"a::call+1", "number"},
      {"a::call2x", "number"},
      {"a::call4294967296", "number"},
      {"a::call2::call3", "number"},
      {"a%", "hexadecimal"},
      {"a%2", "hexadecimal"},
      {"a%zz", "hexadecimal"},
      {"a%-1", "hexadecimal"},
      {"a%00b", "NUL"},
      {std::string("a\0b", 3), "NUL"},
  };
  for (const auto& [text, why] : cases) {
    const auto parsed = parse_key(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(parsed.error().message.find(why), std::string::npos) << parsed.error().message;
    EXPECT_FALSE(parsed.error().hint.empty());
  }
}

TEST(FileName, KeepsWhatIsSafeAndEscapesTheRest) {
  EXPECT_EQ(file_name_of("model.layers.0.o_proj"), "model.layers.0.o_proj");
  EXPECT_EQ(file_name_of("a-b_C@in"), "a-b_C@in");
  EXPECT_EQ(file_name_of("a::call2@in/0"), "a%3A%3Acall2@in%2F0");
  EXPECT_EQ(file_name_of("a b~\xFF"), "a%20b%7E%FF");
  EXPECT_EQ(file_name_of("%2F"), "%252F");
}

TEST(FileName, IsNeverHiddenNeverADirectoryNeverEmpty) {
  EXPECT_EQ(file_name_of("."), "%2E");
  EXPECT_EQ(file_name_of(".."), "%2E.");
  EXPECT_EQ(file_name_of(".hidden"), "%2Ehidden");
  EXPECT_FALSE(file_name_of("").empty());
}

TEST(FileName, LongKeysAreShortenedAndStayApart) {
  const std::string fits(200, 'a');
  EXPECT_EQ(file_name_of(fits), fits);

  std::set<std::string> names = {file_name_of(fits)};
  const auto add = [&](const std::string& key) {
    const std::string name = file_name_of(key);
    EXPECT_LE(name.size(), 200u);
    EXPECT_TRUE(names.insert(name).second) << key;
  };
  const std::string base(300, 'a');
  for (size_t length = 201; length < 300; ++length) add(base.substr(0, length));
  for (size_t i = 0; i < base.size(); ++i)
    for (char c : {'b', '/', '\x01'}) {
      std::string key = base;
      key[i] = c;
      add(key);
    }
  for (size_t i = 0; i + 1 < base.size(); ++i) {
    std::string key = base;
    key[i] = 'b';
    key[i + 1] = 'c';
    add(key);
    std::swap(key[i], key[i + 1]);
    add(key);
  }
  // A whole name that looks like a shortened one.
  add(file_name_of(base));
}

TEST(FileName, NoTwoKeysMeet) {
  std::mt19937 random(13);
  std::map<std::string, std::string> seen;
  for (int i = 0; i < 100000; ++i) {
    std::string key;
    for (size_t n = random() % 4; n > 0; --n) key += "/.%2Ea@~:"[random() % 9];
    const auto [place, is_new] = seen.emplace(file_name_of(key), key);
    ASSERT_TRUE(is_new || place->second == key) << key << " and " << place->second;
  }
}

}  // namespace
}  // namespace ttap
