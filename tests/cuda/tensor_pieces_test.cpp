#include "cuda/tensor_pieces.h"

#include <gtest/gtest.h>

#include "sample_tensors.h"

namespace ttap::cuda {
namespace {

TEST(TensorPieces, PutTogetherAreTheTensorWhateverItsStrides) {
  for (const DType dtype : {DType::kU8, DType::kBF16, DType::kC128}) {
    for (const auto& layout : test::sample_layouts()) {
      const auto sample = test::sample_tensor(dtype, layout);
      for (const uint64_t limit : {16, 32, 48, 100, 4096}) {
        std::vector<std::byte> together;
        TensorPieces pieces(sample.view(), limit);
        bool done = pieces.done();
        while (const auto piece = pieces.next()) {
          ASSERT_FALSE(done);
          ASSERT_LE(byte_count(*piece), limit);
          const auto bytes = test::logical_bytes(*piece);
          together.insert(together.end(), bytes.begin(), bytes.end());
          done = pieces.done();
        }
        EXPECT_TRUE(done);
        EXPECT_EQ(together, test::logical_bytes(sample.view())) << sample.name << " by " << limit;
      }
    }
  }
}

TEST(TensorPieces, OfATensorInCOrderAreAsLargeAsTheyMayBe) {
  const std::vector<int64_t> shape = {3, 5, 7};
  const std::vector<float> values(105);
  TensorPieces pieces({values.data(), DType::kF32, shape, {}}, 200);
  std::vector<uint64_t> sizes;
  while (const auto piece = pieces.next()) sizes.push_back(byte_count(*piece));
  EXPECT_EQ(sizes, (std::vector<uint64_t>{200, 200, 20}));
}

}  // namespace
}  // namespace ttap::cuda
