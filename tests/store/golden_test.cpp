#include <gtest/gtest.h>

#include "sample_tensors.h"
#include "ttap/group.h"
#include "ttap/run.h"

namespace ttap {
namespace {

TEST(Golden, Version1_0IsReadBitForBit) {
  const auto pass = Pass::open(TTAP_GOLDEN "/samples-1.0.ttap");
  ASSERT_TRUE(pass.ok()) << pass.error().describe();
  EXPECT_EQ(pass->info().ending, Ending::kComplete);
  EXPECT_EQ(pass->info().problem, "");
  const auto samples = test::sample_tensors();
  ASSERT_EQ(pass->tensor_count(), samples.size());
  for (size_t i = 0; i < samples.size(); ++i) {
    const TensorRecord record = pass->tensor(i);
    EXPECT_EQ(to_string(record.key()), samples[i].name + "@in/0/x");
    EXPECT_EQ(record.dtype, samples[i].dtype);
    EXPECT_TRUE(std::ranges::equal(record.shape, samples[i].shape));
    EXPECT_EQ(record.fingerprint.hash, fingerprint(samples[i].view()).hash) << "hash128 itself has changed";
    const auto view = pass->read(i);
    ASSERT_TRUE(view.ok()) << view.error().describe();
    EXPECT_EQ(test::logical_bytes(*view), test::logical_bytes(samples[i].view()));
  }
}

TEST(Golden, Version1_0HasNoCalls) {
  const auto pass = Pass::open(TTAP_GOLDEN "/samples-1.0.ttap");
  ASSERT_TRUE(pass.ok()) << pass.error().describe();
  for (size_t i = 0; i < pass->event_count(); ++i) {
    EXPECT_FALSE(pass->event(i).returned);
    EXPECT_EQ(pass->event(i).use_count, 0u);
  }
  for (size_t i = 0; i < pass->tensor_count(); ++i) EXPECT_EQ(pass->tensor(i).value, 0u);
}

TEST(Golden, Version1_1IsReadWithItsCalls) {
  const auto pass = Pass::open(TTAP_GOLDEN "/calls-1.1.ttap");
  ASSERT_TRUE(pass.ok()) << pass.error().describe();
  EXPECT_EQ(pass->info().problem, "");
  ASSERT_EQ(pass->event_count(), 5u);
  const EventRecord relu = pass->event(1), add = pass->event(2), backward = pass->event(3);
  EXPECT_EQ(relu.name, "mlp:aten::relu");
  EXPECT_EQ(relu.stack, "model.py:7 in f");
  EXPECT_EQ(relu.arguments, "%0");
  EXPECT_EQ(add.arguments, "%0, %1, alpha=2");
  EXPECT_EQ(add.results, "%2");
  EXPECT_EQ(add.notes, R"({"unread": {"/1": "sparse"}, "hook": {"peak": 7}})");
  EXPECT_EQ(backward.forward, 1u);
  EXPECT_EQ(backward.arguments, "'100%%'");
  EXPECT_TRUE(pass->event(0).returned) << "the module";
  EXPECT_FALSE(pass->event(4).returned) << "aten::raises";
  ASSERT_EQ(add.use_count, 3u);
  const UseRecord in = pass->use(2, 0), other = pass->use(2, 1), after = pass->use(2, 2);
  EXPECT_TRUE(in.written);
  EXPECT_EQ(to_string(pass->tensor(in.record).key()), "mlp:aten::relu");
  EXPECT_EQ(other.tensor, 2u);
  EXPECT_EQ(other.record, kNoNumber);
  EXPECT_EQ(to_string(pass->tensor(after.record).key()), "mlp:aten::add_.Tensor@after/0");
}

TEST(Golden, Version1_2IsReadWithItsGroups) {
  const auto pass = Pass::open(TTAP_GOLDEN "/groups-1.2.ttap");
  ASSERT_TRUE(pass.ok()) << pass.error().describe();
  EXPECT_EQ(pass->info().problem, "");
  for (const char* name : {"fc", "tied"}) {
    const auto weight = pass->find({.name = name, .role = "param", .path = "/weight"});
    ASSERT_TRUE(weight);
    const auto parts = group_of(*pass, *weight);
    ASSERT_TRUE(parts.ok()) << parts.error().describe();
    EXPECT_EQ(parts->format.name, "fp8_e4m3");
    const auto values = read_values(*pass, *weight);
    ASSERT_TRUE(values.ok()) << values.error().describe();
    const auto* found = static_cast<const float*>(values->view.data);
    EXPECT_EQ(std::vector<float>(found, found + 4), (std::vector<float>{0.5F, -1.0F, 0.25F, 1.5F}));
    EXPECT_EQ(fingerprint(values->view).hash, pass->tensor(*weight).fingerprint.hash);
  }
}

TEST(Golden, Version1_2IsReadWithBytesInAnEarlierPass) {
  const auto values_of = [](const Pass& pass, const Key& key) {
    const auto view = pass.read(pass.find(key).value());
    if (!view.ok()) return std::vector<float>();
    const auto* values = static_cast<const float*>(view->data);
    return std::vector<float>(values, values + element_count(*view));
  };
  for (const int number : {0, 1}) {
    const auto pass = Pass::open(TTAP_GOLDEN "/stable-1.2/pass0000" + std::to_string(number) + ".ttap");
    ASSERT_TRUE(pass.ok()) << pass.error().describe();
    EXPECT_EQ(pass->info().problem, "");
    EXPECT_TRUE(pass->info().notes.empty());
    for (const char* name : {"fc", "tied"}) {
      const Key weight{.name = name, .role = "param", .path = "/weight"};
      const Key bias{.name = name, .role = "param", .path = "/bias"};
      EXPECT_EQ(values_of(*pass, weight), (std::vector<float>{0.5F, -1.0F, 0.25F, 1.5F}));
      EXPECT_EQ(values_of(*pass, bias), (std::vector<float>{1, 2, 3, number == 0 ? 4.0F : 5.0F}));
      EXPECT_EQ(pass->file_offset(*pass->find(weight)).has_value(), number == 0);
      EXPECT_TRUE(pass->file_offset(*pass->find(bias)).has_value());
    }
  }
}

TEST(Golden, Version1_4IsReadWithItsSketches) {
  const auto pass = Pass::open(TTAP_GOLDEN "/sketches-1.4.ttap");
  ASSERT_TRUE(pass.ok()) << pass.error().describe();
  EXPECT_EQ(pass->info().problem, "");
  const auto samples = test::sample_tensors();
  ASSERT_EQ(pass->tensor_count(), samples.size());
  size_t sketches = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    const Fingerprint recorded = pass->tensor(i).fingerprint, expected = fingerprint(samples[i].view());
    EXPECT_EQ(recorded.has_sketch, expected.has_sketch) << samples[i].name;
    EXPECT_LE(sketched_distance(recorded.sketch, expected.sketch), 1e-7 * sketched_distance(expected.sketch, {}))
        << samples[i].name;
    sketches += recorded.has_sketch ? 1 : 0;
  }
  EXPECT_GT(sketches, 10u);
}

TEST(Golden, EarlierVersionsHaveNoSketchesThatCount) {
  for (const char* file : {TTAP_GOLDEN "/groups-1.2.ttap", TTAP_GOLDEN "/sketches-1.3.ttap"}) {
    const auto pass = Pass::open(file);
    ASSERT_TRUE(pass.ok()) << pass.error().describe();
    EXPECT_EQ(pass->info().problem, "");
    EXPECT_GT(pass->tensor_count(), 0u);
    for (size_t i = 0; i < pass->tensor_count(); ++i) EXPECT_FALSE(pass->tensor(i).fingerprint.has_sketch) << file;
  }
}

TEST(Golden, Version1_1HasNoGroups) {
  const auto pass = Pass::open(TTAP_GOLDEN "/calls-1.1.ttap");
  ASSERT_TRUE(pass.ok()) << pass.error().describe();
  for (size_t i = 0; i < pass->tensor_count(); ++i) EXPECT_EQ(pass->tensor(i).group, "");
}

}  // namespace
}  // namespace ttap
