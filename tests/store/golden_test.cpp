#include <gtest/gtest.h>

#include "sample_tensors.h"
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

}  // namespace
}  // namespace ttap
