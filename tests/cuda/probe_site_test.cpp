#include "cuda/probe_site.h"
#include "cuda/kept_by_graphs.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "cuda/graph_runtime.h"

namespace ttap::cuda {
namespace {

using graphs::some_stream;

// A tensor of floats that each replay finds as it is then.
struct Tensor {
  std::vector<float> values;
  std::vector<int64_t> shape = {static_cast<int64_t>(values.size())};
  std::vector<int64_t> strides = {};
  TensorView view() const { return {values.data(), DType::kF32, shape, strides}; }
};

using Site = std::shared_ptr<ProbeSite>;

Site make_site(const ProbeSite::Options& options) { return ProbeSite::create(options).value(); }

uint64_t capture(const Site& site, const Tensor& tensor, const Rows& rows = {}, std::shared_ptr<void> rows_owner = {},
                 const ProbeSite::Expectation* expectation = nullptr) {
  const uint64_t graph = graphs::begin_capture();
  EXPECT_TRUE(site->enqueue(tensor.view(), rows, std::move(rows_owner), expectation, some_stream()).ok());
  graphs::end_capture();
  return graph;
}

struct Read {
  uint64_t index;
  std::vector<float> values;
  Fingerprint fingerprint;
};
std::optional<Read> read_next(const Site& site) {
  const auto arrived = site->next();
  if (!arrived) return std::nullopt;
  std::vector<float> values(arrived->taken.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), arrived->taken.data(), arrived->taken.size());
  EXPECT_TRUE(site->release(*arrived));
  return Read{arrived->entry.index, values, arrived->fingerprint};
}

TEST(ProbeSite, EveryReplayArrivesInOrder) {
  Tensor tensor{{1, 2}};
  const Site site = make_site({.bytes = 8, .keep_bytes = true, .capacity = 4});
  const uint64_t graph = capture(site, tensor);
  EXPECT_FALSE(read_next(site));  // capturing is not running
  for (int i = 0; i < 3; ++i) {
    graphs::replay(graph);
    tensor.values[1] += 1;
  }
  for (uint64_t i = 0; i < 3; ++i) {
    const auto read = read_next(site);
    ASSERT_TRUE(read);
    EXPECT_EQ(read->index, i);
    EXPECT_EQ(read->values, (std::vector<float>{1, 2 + static_cast<float>(i)}));
    EXPECT_EQ(read->fingerprint.hash, fingerprint(Tensor{read->values}.view()).hash);
  }
  EXPECT_FALSE(read_next(site));
  graphs::destroy(graph);
}

TEST(ProbeSite, WhatNobodyReadIsOverwrittenAndCounted) {
  const Tensor tensor{{1}};
  const Site site = make_site({.bytes = 4, .keep_bytes = true, .capacity = 2});
  const uint64_t graph = capture(site, tensor);
  for (int i = 0; i < 5; ++i) graphs::replay(graph);
  EXPECT_EQ(read_next(site)->index, 3);
  EXPECT_EQ(site->overwritten(), 3);
  EXPECT_EQ(site->published(), 5);
  graphs::destroy(graph);
}

TEST(ProbeSite, AFullRingWaitsWhereNothingMayBeLost) {
  const Tensor tensor{{1}};
  const Site site = make_site({.bytes = 4, .keep_bytes = true, .capacity = 2, .wait_when_full = true});
  const uint64_t graph = capture(site, tensor);
  std::thread device([&] {
    for (int i = 0; i < 50; ++i) graphs::replay(graph);
  });
  for (uint64_t i = 0; i < 50;)
    if (const auto read = read_next(site)) {
      EXPECT_EQ(read->index, i++);
    }
  device.join();
  EXPECT_EQ(site->overwritten(), 0);
  graphs::destroy(graph);
}

TEST(ProbeSite, ClosingLetsAReplayGoOnThatWaits) {
  const Tensor tensor{{1}};
  const Site site = make_site({.bytes = 4, .capacity = 1, .wait_when_full = true});
  const uint64_t graph = capture(site, tensor);
  graphs::replay(graph);
  std::thread device([&] { graphs::replay(graph); });
  site->close();
  device.join();
  EXPECT_EQ(site->skipped(), 1);
  EXPECT_TRUE(read_next(site));  // what had arrived
  EXPECT_FALSE(read_next(site));
  graphs::destroy(graph);
}

TEST(ProbeSite, ItLivesAsLongAsTheGraphAndIsFreedByUs) {
  free_what_was_put_aside();
  const int64_t before = graphs::allocations();
  const Tensor tensor{{1, 2, 3}};
  auto rows_owner = std::make_shared<int64_t>(2);
  const std::weak_ptr<int64_t> rows = rows_owner;
  Site site = make_site({.bytes = 12, .keep_bytes = true});
  const uint64_t graph = capture(site, tensor, {rows_owner.get()}, rows_owner);
  rows_owner.reset();
  site->close();
  site.reset();
  graphs::replay(graph);
  EXPECT_FALSE(rows.expired());
  graphs::destroy(graph);
  EXPECT_GT(graphs::allocations(), before);  // the driver's thread frees nothing
  free_what_was_put_aside();
  EXPECT_EQ(graphs::allocations(), before);
  EXPECT_TRUE(rows.expired());
}

TEST(ProbeSite, WhatArrivedOutlivesTheGraph) {
  const Tensor tensor{{7}};
  const Site site = make_site({.bytes = 4, .keep_bytes = true});
  const uint64_t graph = capture(site, tensor);
  graphs::replay(graph);
  graphs::destroy(graph);
  free_what_was_put_aside();
  EXPECT_EQ(read_next(site)->values, std::vector<float>{7});
}

TEST(ProbeSite, OnlyTheHeadIsTakenWhenTheBytesAreNotKept) {
  const Tensor tensor{.values = {0, 1, 2, 3, 4, 5}, .shape = {3, 2}, .strides = {1, 3}};  // a transposed one
  const Site site = make_site({.bytes = 24, .head_elements = 3, .element_bytes = 4});
  ASSERT_TRUE(site->enqueue(tensor.view(), {}, {}, nullptr, some_stream()).ok());
  EXPECT_EQ(read_next(site)->values, (std::vector<float>{0, 3, 1}));
}

TEST(ProbeSite, RowsLimitWhatIsTaken) {
  const Tensor tensor{.values = {0, 1, 2, 3, 4, 5}, .shape = {3, 2}};
  const auto rows = std::make_shared<int32_t>(2);
  const Site site = make_site({.bytes = 24, .keep_bytes = true});
  const uint64_t graph = capture(site, tensor, {rows.get(), false}, rows);
  graphs::replay(graph);
  *rows = 0;
  graphs::replay(graph);
  EXPECT_EQ(read_next(site)->values, (std::vector<float>{0, 1, 2, 3}));
  EXPECT_TRUE(read_next(site)->values.empty());
  graphs::destroy(graph);
}

TEST(ProbeSite, TheFirstFailureIsKeptAndAllAreCounted) {
  Tensor tensor{{1, 2}};
  const Site site = make_site({.bytes = 8, .compares = true});
  const ProbeSite::Expectation expectation{expected_on_device(Tensor{{1, 2}}.view(), 0).value(), {.atol = 0.5}};
  const uint64_t graph = capture(site, tensor, {}, {}, &expectation);
  for (const float value : {2.25F, 4.0F, 9.0F, 2.0F}) {
    tensor.values[1] = value;
    graphs::replay(graph);
  }
  const CompareReport& report = *site->comparisons();
  EXPECT_EQ(report.comparisons, 4);
  EXPECT_EQ(report.failures, 2);
  EXPECT_EQ(report.failed_comparison, 1);
  EXPECT_EQ(report.first, 1);
  EXPECT_EQ(report.largest, 2);
  graphs::destroy(graph);
}

TEST(ProbeSite, ATensorLargerThanItIsMadeForIsRefused) {
  const Site site = make_site({.bytes = 4});
  const Status refused = site->enqueue(Tensor{{1, 2}}.view(), {}, {}, nullptr, some_stream());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(site->published(), 0);
}

}  // namespace
}  // namespace ttap::cuda
