#include "capture/copy_crew.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace ttap {
namespace {

// How often each chunk was done.
std::vector<int> share(CopyCrew& crew, uint64_t count) {
  std::vector<int> done(count, 0);
  crew.share(count, [&](CopyCrew::Chunks& chunks) {
    while (const auto chunk = chunks.next()) ++done[*chunk];
  });
  return done;
}

TEST(CopyCrew, EveryChunkIsDoneOnce) {
  for (const unsigned helpers : {0u, 1u, 3u}) {
    CopyCrew crew(helpers);
    for (const uint64_t count : {0, 1, 2, 3, 100})
      for (int round = 0; round < 200; ++round) ASSERT_EQ(share(crew, count), std::vector<int>(count, 1));
  }
}

TEST(CopyCrew, HelpsSeveralThreadsAtOnceAndNobodyWhenStopped) {
  CopyCrew crew(2);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0, rounds = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (uint64_t round = 0; round < 500; ++round)
        if (const uint64_t count = round % 9; ++rounds, share(crew, count) != std::vector<int>(count, 1)) ++wrong;
    });
  while (rounds < 1000) std::this_thread::yield();
  crew.stop();  // while they work
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(share(crew, 5), std::vector<int>(5, 1));
  EXPECT_EQ(wrong, 0);
}

TEST(CopyCrew, TheCallerDoesNotWaitForAHelperThatHasNotBegun) {
  CopyCrew crew(1);
  // The only helper is held up in another job.
  std::atomic<bool> begun = false, let_go = false;
  std::thread holder([&] {
    const auto holder_id = std::this_thread::get_id();
    crew.share(2, [&](CopyCrew::Chunks& chunks) {
      while (chunks.next()) {
        if (std::this_thread::get_id() != holder_id) begun = true;
        while (!let_go) std::this_thread::yield();
      }
    });
  });
  while (!begun) std::this_thread::yield();
  EXPECT_EQ(share(crew, 50), std::vector<int>(50, 1));  // would hang
  let_go = true;
  holder.join();
}

}  // namespace
}  // namespace ttap
