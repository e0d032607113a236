#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>

#include "alignment.h"
#include "analyze/diff/match/pairing.h"

// Matching what neither keys nor a map match.
namespace ttap {
namespace {

using test::aligned;
using test::Lines;
using test::MemorySide;

TEST(Structure, TheOnlyOneOfItsShapeBetweenTwoMatchesIsFound) {
  const MemorySide a{{"p"}, {"old", {3, 5}}, {"q"}}, b{{"p"}, {"new", {3, 5}}, {"q"}};
  EXPECT_EQ(aligned(a, b), (Lines{"p = p", "old ~ new", "q = q"}));
  const Match match = align(a, b)[1];
  EXPECT_GE(match.confidence, kLeastConfidence);
  EXPECT_LT(match.confidence, 1);
  EXPECT_EQ(aligned(a, b, {.structure = false}), (Lines{"p = p", "- new", "old -", "q = q"}));
}

TEST(Structure, RoleAndNumberOfElementsMustAgree) {
  EXPECT_EQ(aligned(MemorySide{{"fc.a", {3, 5}}}, MemorySide{{"fc.b", {3, 6}}}).size(), 2u);
  EXPECT_EQ(aligned(MemorySide{{"fc.a@in"}}, MemorySide{{"fc.b"}}).size(), 2u);
  EXPECT_EQ(aligned(MemorySide{{"fc.a", {0, 5}}}, MemorySide{{"fc.b", {7, 0}}}).size(), 2u);
}

TEST(Structure, TheNearerTheShapeTheSurer) {
  const auto confidence = [](std::vector<int64_t> shape) {
    const MemorySide a{{"attn.query", {1, 6, 8}}}, b{{"attn.q_proj", std::move(shape)}};
    const auto matches = align(a, b);
    return matches.size() == 1 ? matches[0].confidence : 0;
  };
  EXPECT_GT(confidence({1, 6, 8}), confidence({6, 8}));
  EXPECT_GT(confidence({6, 8}), confidence({6, 2, 4}));
  EXPECT_GT(confidence({6, 2, 4}), 0);
}

TEST(Structure, FloatsAreNotTakenForIntegers) {
  const MemorySide a{{"ids", {4}, "", "", DType::kI64}};
  EXPECT_EQ(aligned(a, MemorySide{{"hidden", {4}}}).size(), 2u);
  EXPECT_EQ(aligned(a, MemorySide{{"tokens", {4}, "", "", DType::kI32}}).size(), 1u);
}

TEST(Structure, OneOfTwoAlikeWithNothingToTellThemApartIsLeftAlone) {
  const MemorySide a{{"p"}, {"alpha"}, {"beta"}, {"q"}}, b{{"p"}, {"omega"}, {"q"}};
  EXPECT_EQ(aligned(a, b), (Lines{"p = p", "- omega", "alpha -", "beta -", "q = q"}));
}

TEST(Structure, MatchesByKeyKeepLeftoversApart) {
  const MemorySide a{{"old"}, {"p", {1}}, {"q", {2}}}, b{{"p", {1}}, {"q", {2}}, {"new"}};
  EXPECT_EQ(aligned(a, b), (Lines{"old -", "p = p", "q = q", "- new"}));
}

TEST(Structure, AMatchThatChangedPlacesDoesNotHideTheOthers) {
  const MemorySide a{{"moved", {1}}, {"p", {2}}, {"old", {3}}, {"q", {4}}};
  const MemorySide b{{"p", {2}}, {"new", {3}}, {"q", {4}}, {"moved", {1}}};
  EXPECT_EQ(aligned(a, b), (Lines{"moved = moved", "p = p", "old ~ new", "q = q"}));
}

TEST(Structure, ASecondCallIsNotTakenForAnotherOperator) {
  const MemorySide a{{"x"}, {"x::call2"}, {"y"}}, b{{"x"}, {"z"}, {"y"}};
  EXPECT_EQ(aligned(a, b), (Lines{"x = x", "- z", "x::call2 -", "y = y"}));
  const MemorySide swapped{{"x"}, {"y"}};
  EXPECT_EQ(aligned(a, swapped), (Lines{"x = x", "x::call2 -", "y = y"}));
}

TEST(Structure, AnOutputThatMovedInsideItsTupleIsFound) {
  const MemorySide a{{"attn@in"}, {"attn", {6, 8}}}, b{{"attn@in"}, {"attn/0", {6, 8}}, {"attn/1", {6, 6}}};
  EXPECT_EQ(aligned(a, b), (Lines{"attn@in = attn@in", "attn ~ attn/0", "- attn/1"}));
}

TEST(Structure, TheParentTellsOperatorsOfOneNameApart) {
  const MemorySide a{{"aten::mm", {4}, "op", "net.query"}, {"aten::mm::call2", {4}, "op", "net.key"}};
  const MemorySide b{{"mm", {4}, "op", "model.wk"}, {"mm::call2", {4}, "op", "model.wq"}};
  EXPECT_EQ(aligned(a, b), (Lines{"aten::mm ~ mm::call2", "aten::mm::call2 ~ mm"}));
}

TEST(Structure, ANumberedSequenceAgainstNamedLayers) {
  const MemorySide a{{"features.0", {8, 9, 9}}, {"features.1", {8, 9, 9}}, {"features.2", {8, 4, 4}}, {"fc", {10}}};
  const MemorySide b{{"conv1", {8, 9, 9}}, {"relu1", {8, 9, 9}}, {"pool1", {8, 4, 4}}, {"classifier", {10}}};
  EXPECT_EQ(aligned(a, b),
            (Lines{"features.0 ~ conv1", "features.1 ~ relu1", "features.2 ~ pool1", "fc ~ classifier"}));
}

// A decoder as one library calls its modules and as another does. `truth` is A's name → B's.
struct TwoDecoders {
  MemorySide a{}, b{};
  std::map<std::string, std::string> truth;
};

TwoDecoders decoders(const std::vector<std::pair<std::string, std::string>>& names_b, const std::set<int>& not_in_a,
                     const std::set<int>& not_in_b, int layers = 32) {
  const std::map<std::string, std::vector<int64_t>> shapes = {
      {"norm1", {1, 7, 64}}, {"q", {1, 7, 64}},     {"k", {1, 7, 16}},   {"v", {1, 7, 16}},    {"o", {1, 7, 64}},
      {"norm2", {1, 7, 64}}, {"gate", {1, 7, 128}}, {"up", {1, 7, 128}}, {"act", {1, 7, 128}}, {"down", {1, 7, 64}}};
  const std::vector<std::pair<std::string, std::string>> names_a = {
      {"norm1", "input_layernorm"}, {"q", "self_attn.q_proj"}, {"k", "self_attn.k_proj"},
      {"v", "self_attn.v_proj"},    {"o", "self_attn.o_proj"}, {"norm2", "post_attention_layernorm"},
      {"gate", "mlp.gate_proj"},    {"act", "mlp.act_fn"},     {"up", "mlp.up_proj"},
      {"down", "mlp.down_proj"}};
  TwoDecoders out;
  std::map<std::string, std::string> a_of;
  const auto add = [&](MemorySide& side, const std::string& name, std::vector<int64_t> shape) {
    side.add({name, std::move(shape), "module", ""});
  };
  add(out.a, "model.embed_tokens", {1, 7, 64});
  add(out.b, "tok_embeddings", {7, 64});
  out.truth["model.embed_tokens"] = "tok_embeddings";
  for (int i = 0; i < layers; ++i) {
    const std::string number = std::to_string(i);
    for (const auto& [what, name] : names_a)
      if (!not_in_a.contains(i)) {
        a_of[what] = "model.layers." + number + "." + name;
        add(out.a, a_of[what], shapes.at(what));
      }
    for (const auto& [what, name] : names_b) {
      if (not_in_b.contains(i)) continue;
      const std::string b_name = "blocks." + number + "." + name;
      add(out.b, b_name, shapes.at(what));
      if (!not_in_a.contains(i)) out.truth[a_of[what]] = b_name;
    }
  }
  add(out.a, "model.norm", {1, 7, 64});
  add(out.b, "norm", {1, 7, 64});
  out.truth["model.norm"] = "norm";
  add(out.a, "lm_head", {1, 7, 1000});
  add(out.b, "output", {1, 7, 1000});
  out.truth["lm_head"] = "output";
  return out;
}

// Right, wrong and missed matches.
struct Tally {
  size_t right = 0, wrong = 0, missed = 0;
  std::string example = {};
};

Tally tally(const TwoDecoders& models) {
  Tally out;
  for (const Match& match : align(models.a, models.b)) {
    if (match.a == kNoTensor) continue;
    const std::string a(models.a.tensor(match.a).name);
    const auto wanted = models.truth.find(a);
    const std::string b = match.b == kNoTensor ? "" : std::string(models.b.tensor(match.b).name);
    if (wanted == models.truth.end()) {
      out.wrong += !b.empty();
    } else {
      out.right += b == wanted->second;
      out.missed += b.empty();
      out.wrong += !b.empty() && b != wanted->second;
    }
    if (wanted != models.truth.end() ? b != wanted->second : !b.empty()) out.example += a + " ~ " + b + "\n";
  }
  return out;
}

// k and v change places, the activation is not a module.
const std::vector<std::pair<std::string, std::string>> kReferenceNames = {{"norm1", "attention_norm"},
                                                                          {"q", "attn.wq"},
                                                                          {"v", "attn.wv"},
                                                                          {"k", "attn.wk"},
                                                                          {"o", "attn.wo"},
                                                                          {"norm2", "ffn_norm"},
                                                                          {"gate", "feed_forward.w1"},
                                                                          {"up", "feed_forward.w3"},
                                                                          {"down", "feed_forward.w2"}};

TEST(Structure, ADecoderOfAnotherLibraryIsMatchedWithoutOneCommonKey) {
  const TwoDecoders models = decoders(kReferenceNames, {}, {});
  const Tally seen = tally(models);
  EXPECT_EQ(seen.wrong, 0u) << seen.example;
  EXPECT_EQ(seen.missed, 0u) << seen.example;
  EXPECT_EQ(seen.right, models.truth.size());
}

TEST(Structure, LayersOfOneSideOnlyStayUnmatched) {
  const TwoDecoders models = decoders(kReferenceNames, {3, 4}, {11, 31});
  const Tally seen = tally(models);
  EXPECT_EQ(seen.wrong, 0u) << seen.example;
  EXPECT_EQ(seen.missed, 0u) << seen.example;
  EXPECT_EQ(seen.right, models.truth.size());
}

TEST(Structure, AnEncoderIsMatchedByOrderWhereItsNamesSayLittle) {
  using Modules = std::vector<std::pair<std::string, int64_t>>;
  const Modules names_a = {{"attention.self.query", 64},
                           {"attention.self.key", 64},
                           {"attention.self.value", 64},
                           {"attention.output.dense", 64},
                           {"attention.output.LayerNorm", 64},
                           {"intermediate.dense", 256},
                           {"output.dense", 64},
                           {"output.LayerNorm", 64}};
  const Modules names_b = {{"attn.q", 64}, {"attn.k", 64},   {"attn.v", 64},  {"attn.proj", 64},
                           {"norm1", 64},  {"mlp.fc1", 256}, {"mlp.fc2", 64}, {"norm2", 64}};
  MemorySide a{}, b{};
  for (int i = 0; i < 12; ++i) {
    for (const auto& [name, width] : names_a) a.add({"encoder.layer." + std::to_string(i) + "." + name, {2, width}});
    for (const auto& [name, width] : names_b) b.add({"blocks." + std::to_string(i) + "." + name, {2, width}});
  }
  for (const Match& match : align(a, b)) EXPECT_EQ(match.a, match.b) << test::written(a, b, match);
}

TEST(Structure, LayersMayBeCountedFromOne) {
  MemorySide a{}, b{};
  for (int i = 0; i < 6; ++i) {
    for (const char* name : {"norm", "fc", "act"}) {
      a.add({"layers." + std::to_string(i) + "." + name, {8}});
      b.add({"stage." + std::to_string(i + 1) + "." + name, {8}});
    }
  }
  for (const Match& match : align(a, b)) EXPECT_EQ(match.a, match.b);
}

TEST(Structure, NamesThatNobodyKnowsAreLearntFromTheirOrder) {
  const TwoDecoders models = decoders({{"norm1", "aa"},
                                       {"q", "bb.x"},
                                       {"k", "bb.y"},
                                       {"v", "bb.z"},
                                       {"o", "bb.w"},
                                       {"norm2", "cc"},
                                       {"gate", "dd.x"},
                                       {"act", "dd.v"},
                                       {"up", "dd.y"},
                                       {"down", "dd.z"}},
                                      {}, {});
  const Tally seen = tally(models);
  EXPECT_EQ(seen.wrong, 0u) << seen.example;
  EXPECT_EQ(seen.missed, 0u) << seen.example;
}

TEST(Structure, ARenamingSeenOftenIsSurerThanOneSeenOnce) {
  const std::vector<std::pair<std::string, std::string>> names = {{"q", "bb.x"}, {"gate", "dd.y"}};
  const auto confidence = [&](int layers) {
    const TwoDecoders models = decoders(names, {}, {}, layers);
    for (const Match& match : align(models.a, models.b))
      if (match.by == MatchedBy::kStructure && models.b.tensor(match.b).name == "blocks.0.dd.y")
        return match.confidence;
    return 0.0F;
  };
  EXPECT_GT(confidence(8), confidence(1));
}

TEST(Structure, ALongSequenceIsMatchedAsWell) {
  // 6,000 × 6,000 is more than is aligned cell by cell.
  MemorySide a{}, b{};
  for (int i = 0; i < 3000; ++i) {
    a.add({"layers." + std::to_string(i) + ".fc1", {8}});
    a.add({"layers." + std::to_string(i) + ".fc2", {16}});
    b.add({"h." + std::to_string(i) + ".lin1", {8}});
    b.add({"h." + std::to_string(i) + ".lin2", {16}});
  }
  size_t right = 0;
  for (const Match& match : align(a, b)) right += match.a == match.b && match.by == MatchedBy::kStructure;
  EXPECT_EQ(right, 6000u);
}

}  // namespace
}  // namespace ttap
