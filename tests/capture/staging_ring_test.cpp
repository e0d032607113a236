#include "capture/staging_ring.h"

#include <gtest/gtest.h>

namespace ttap {
namespace {

constexpr uint64_t kBody = 1000;

bool put(StagingRing& ring) {
  StagingRing::Record* record = ring.reserve(kBody, StagingRing::Wait::kNever, [] { return true; });
  if (record != nullptr) ring.publish(record, false);
  return record != nullptr;
}

void take(StagingRing& ring, int count) {
  for (int i = 0; i < count; ++i) ASSERT_NE(ring.next_published(std::chrono::microseconds(1)), nullptr);
  ring.release();
}

TEST(StagingRing, AWriterThatIsBehindLeavesAllMemoryToTheProducers) {
  const auto ring = std::move(StagingRing::create(1 << 20)).value();
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(put(*ring));
  take(*ring, 60);
  // It does nothing more. What it has left and what comes now fill the ring, but for some bytes at its end.
  int more = 0;
  while (put(*ring)) ++more;
  EXPECT_GE((more + 40) * kBody, (1U << 20) * 9 / 10);
}

TEST(StagingRing, AWriterThatKeepsUpLeavesMostMemoryUntouched) {
  const auto ring = std::move(StagingRing::create(64 << 20)).value();
  ASSERT_TRUE(put(*ring));
  for (int i = 0; i < 200'000; ++i) {
    ASSERT_TRUE(put(*ring));
    take(*ring, 1);  // and one is always left
  }
  EXPECT_LE(ring->peak_bytes(), 8U << 20);
}

TEST(StagingRing, WhatFillsItIsGivenOutInOrder) {
  const auto ring = std::move(StagingRing::create(64 << 10)).value();
  uint64_t next = 0, expected = 0;
  for (int round = 0; round < 500; ++round) {
    while (StagingRing::Record* record =
               ring->reserve(sizeof(uint64_t) * (1 + next % 700), StagingRing::Wait::kNever, [] { return true; })) {
      *reinterpret_cast<uint64_t*>(record->body()) = next++;
      ring->publish(record, false);
    }
    for (int i = 0; i < 1 + round % 9; ++i) {
      StagingRing::Record* record = ring->next_published(std::chrono::microseconds(1));
      ASSERT_NE(record, nullptr);
      EXPECT_EQ(*reinterpret_cast<uint64_t*>(record->body()), expected++);
    }
    ring->release();
  }
}

}  // namespace
}  // namespace ttap
