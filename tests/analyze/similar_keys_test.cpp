#include "analyze/values/similar_keys.h"

#include <gtest/gtest.h>

#include <random>

#include "sample_run.h"
#include "scratch.h"

namespace ttap {
namespace {

TEST(EditDistance, CountsSingleChanges) {
  EXPECT_EQ(edit_distance("kitten", "sitting", 9), 3u);
  EXPECT_EQ(edit_distance("", "abc", 9), 3u);
  EXPECT_EQ(edit_distance("same", "same", 9), 0u);
}

TEST(EditDistance, StopsAboveItsLimit) {
  EXPECT_GT(edit_distance("aaaa", "bbbb", 2), 2u);
  EXPECT_GT(edit_distance("a", "abcdefgh", 2), 2u);
}

TEST(EditDistance, WithALimitIsThatWithoutOneUpToThere) {
  std::mt19937 random(7);
  const auto word = [&] {
    std::string text(random() % 12, 'a');
    for (char& c : text) c = static_cast<char>('a' + random() % 3);
    return text;
  };
  for (int i = 0; i < 5000; ++i) {
    const std::string a = word(), b = word();
    const size_t exact = edit_distance(a, b, 100);
    for (const size_t limit : {0u, 1u, 2u, 5u})
      EXPECT_EQ(edit_distance(a, b, limit), std::min(exact, limit + 1)) << a << " " << b << " " << limit;
  }
}

TEST(SimilarKeys, ContainingComesBeforeResembling) {
  ScratchDirectory scratch;
  test::SamplePass writer(scratch.path(), 0);
  for (const char* name : {"mlq", "model.layers.0.MLP.down", "model.layers.0.mlp", "attention", "unrelated_thing"})
    writer.tensor(name, {1}, std::vector<float>{1});
  const auto pass = Pass::open(writer.finish());
  ASSERT_TRUE(pass.ok());
  EXPECT_EQ(similar_keys(*pass, "mlp", 5),
            (std::vector<std::string>{"model.layers.0.mlp", "model.layers.0.MLP.down", "mlq"}));
  EXPECT_EQ(similar_keys(*pass, "mlp", 1), (std::vector<std::string>{"model.layers.0.mlp"}));
  EXPECT_EQ(similar_keys(*pass, "atention", 3), (std::vector<std::string>{"attention"}));
  EXPECT_TRUE(similar_keys(*pass, "zzzzzzzzzzzz", 3).empty());
}

}  // namespace
}  // namespace ttap
