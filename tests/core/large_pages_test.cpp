#include "core/large_pages.h"

#include <gtest/gtest.h>

#include "fresh_memory.h"

namespace ttap {
namespace {

constexpr size_t kSize = FreshMemory::kSize;

class LargePages : public testing::Test {
 protected:
  void SetUp() override {
    if (!kernel_has_large_pages()) GTEST_SKIP() << "a kernel without large pages";
  }
};

TEST_F(LargePages, AreAskedForWhereMuchIsWritten) {
  const FreshMemory memory;
  EXPECT_FALSE(large_pages_asked_for(memory.data() + kSize / 2));
  prefer_large_pages(memory.data() + 100, kSize - 200);
  EXPECT_TRUE(large_pages_asked_for(memory.data() + kSize / 2));
}

TEST_F(LargePages, AreNotAskedForOfLittle) {
  const FreshMemory memory;
  prefer_large_pages(memory.data(), kSize / 8);
  EXPECT_FALSE(large_pages_asked_for(memory.data() + kSize / 16));
}

TEST_F(LargePages, AreNotAskedForOfWhatLiesBeside) {
  const FreshMemory memory;
  prefer_large_pages(memory.data() + kSize / 2, kSize / 2);
  EXPECT_FALSE(large_pages_asked_for(memory.data()));
}

}  // namespace
}  // namespace ttap
