#include <gtest/gtest.h>

#include <cstring>

#include "scratch.h"
#include "ttap/run.h"

extern "C" {
int record_from_c(const char* directory);
int create_with_other_headers(const char* directory);
int record_at_levels(const char* directory);
}

namespace ttap {
namespace {

TEST(CApi, RecordsFromC) {
  const ScratchDirectory scratch;
  ASSERT_EQ(record_from_c(scratch.path().c_str()), 0) << "the line in capi_test.c";
  const auto run = Run::open(scratch.path());
  ASSERT_TRUE(run.ok());
  ASSERT_EQ(run->ranks[0].number, 5u);
  const auto pass = Pass::open(run->ranks[0].passes[0].path);
  ASSERT_TRUE(pass.ok());
  EXPECT_EQ(pass->info().ending, Ending::kAborted);
  EXPECT_EQ(pass->info().drops.unsupported, 2u);
  ASSERT_EQ(pass->tensor_count(), 1u);
  EXPECT_EQ(to_string(pass->tensor(0).key()), "keep.me@in/0");
  const auto view = pass->read(0);
  ASSERT_TRUE(view.ok());
  const int32_t expected[] = {1, 2, 4, 5};
  EXPECT_EQ(std::memcmp(view->data, expected, sizeof expected), 0);
}

TEST(CApi, TakesOptionsOfOlderAndNewerHeaders) {
  const ScratchDirectory scratch;
  EXPECT_EQ(create_with_other_headers(scratch.path().c_str()), 0) << "the line in capi_test.c";
}

TEST(CApi, LevelsGoByName) {
  const ScratchDirectory scratch;
  ASSERT_EQ(record_at_levels(scratch.path().c_str()), 0) << "the line in capi_test.c";
  const auto run = Run::open(scratch.path());
  ASSERT_TRUE(run.ok());
  const auto pass = Pass::open(run->ranks[0].passes[0].path);
  ASSERT_TRUE(pass.ok());
  const auto level_of = [&](const char* name) { return pass->tensor(pass->find({.name = name}).value()).level; };
  EXPECT_EQ(level_of("head"), Level::kFull);
  EXPECT_EQ(level_of("norm"), Level::kMeta);
  EXPECT_EQ(level_of("fc"), Level::kSketch);
}

}  // namespace
}  // namespace ttap
