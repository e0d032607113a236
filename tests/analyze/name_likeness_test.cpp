#include "analyze/diff/match/names/name_likeness.h"

#include <gtest/gtest.h>

namespace ttap {
namespace {

double alike(std::string_view a, std::string_view b) { return likeness(NameWords(a), NameWords(b)); }

TEST(SplitName, TakesOutWhatOnlyCounts) {
  struct Case {
    const char* name;
    bool numbered;
    const char* pattern;
    NameNumbers numbers;
  };
  for (const Case& c :
       {Case{"layers.3.attn.w1", false, "layers.#.attn.w1", {.count = 1, .last = 3}},
        Case{"layers.3.experts.17.w1", false, "layers.#.experts.#.w1", {.count = 2, .last = 17, .before_last = 3}},
        Case{"block12.conv1", false, "block#.conv1", {.count = 1, .last = 12}},
        Case{"features.7", false, "features.#", {.count = 1, .last = 7}}, Case{"ln_1", false, "ln_1", {}},
        Case{"mm_12", true, "mm_#", {.count = 1, .last = 12}}, Case{"fc2", true, "fc2", {}}, Case{"", false, "", {}}}) {
    const SplitName split = split_name(c.name, c.numbered);
    EXPECT_EQ(split.pattern, c.pattern);
    EXPECT_EQ(split.numbers, c.numbers) << c.name;
  }
}

TEST(NameLikeness, OfTheSameThingIsOneInWhateverSpelling) {
  EXPECT_DOUBLE_EQ(alike("layers.#.self_attn.q_proj", "blocks.#.attn.wq"), 1);
  EXPECT_DOUBLE_EQ(alike("h.#.MLP.LayerNorm", "layers.#.feed_forward.layer_norm"), 1);
  EXPECT_DOUBLE_EQ(alike("patchify", "patchify"), 1);
}

TEST(NameLikeness, KnownWordsAreLikeThemselvesOnly) {
  EXPECT_LT(alike("attn.k_proj", "attn.v_proj"), 0.5);
  EXPECT_LT(alike("mlp.gate_proj", "mlp.down_proj"), 0.5);
}

TEST(NameLikeness, UnknownWordsAreAsLikeAsTheirLetters) {
  EXPECT_GT(alike("patch_embedder", "patches_embed"), 0.2);
  EXPECT_GT(alike("aggregator", "aggregate"), 0.5);
  EXPECT_EQ(alike("aggregator", "tail"), 0);
  EXPECT_EQ(alike("", "tail"), 0);
}

TEST(NameLikeness, TheLastPartWeighsMost) { EXPECT_GT(alike("x.tail", "y.tail"), alike("x.tail", "x.front")); }

TEST(NameLikeness, NumbersAgreeFromTheLastOn) {
  const auto numbers = [](const char* name) { return split_name(name, false).numbers; };
  EXPECT_EQ(likeness(numbers("a.3.x"), numbers("b.3.y")), 1);
  EXPECT_EQ(likeness(numbers("m.0.a.3.x"), numbers("b.3.y")), 1);
  EXPECT_EQ(likeness(numbers("a.3.e.7.x"), numbers("a.4.e.7.x")), 0);
  EXPECT_EQ(likeness(numbers("a.3.x"), numbers("b.4.y")), 0);
  EXPECT_LT(likeness(numbers("a.3.x"), numbers("b")), likeness(numbers("a"), numbers("b")));
}

}  // namespace
}  // namespace ttap
