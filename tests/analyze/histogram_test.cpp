#include "analyze/values/histogram.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "not_finite.h"

namespace ttap {
namespace {

template <class T>
Histogram histogram_of(DType dtype, const std::vector<T>& values, size_t bins) {
  const int64_t shape[] = {static_cast<int64_t>(values.size())};
  return histogram({values.data(), dtype, shape, {}}, bins);
}

std::vector<uint64_t> counts(const Histogram& histogram) {
  std::vector<uint64_t> result;
  for (const auto& bin : histogram.bins) result.push_back(bin.count);
  return result;
}

TEST(Histogram, CountsFiniteValuesInBinsOfEqualWidth) {
  const auto h = histogram_of<float>(DType::kF32, {0, 1, 2, 3, 4, kNan, kInf, -kInf}, 4);
  EXPECT_EQ(counts(h), (std::vector<uint64_t>{1, 1, 1, 2}));  // the last bin holds its upper edge
  EXPECT_EQ(h.finite, 5u);
  EXPECT_EQ(h.nonfinite, 3u);
  EXPECT_EQ(h.bins.front().low, Number(0.0));
  EXPECT_EQ(h.bins.back().high, Number(4.0));
}

TEST(Histogram, EveryFiniteValueLiesInsideItsBin) {
  std::vector<double> values(1000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = 0.1 * static_cast<double>(i % 70);
  const auto h = histogram_of<double>(DType::kF64, values, 7);
  uint64_t total = 0;
  for (size_t i = 0; i < h.bins.size(); ++i) {
    uint64_t inside = 0;
    for (double value : values) {
      const bool last = i + 1 == h.bins.size();
      inside += value >= std::get<double>(h.bins[i].low) &&
                (value < std::get<double>(h.bins[i].high) || (last && value == std::get<double>(h.bins[i].high)));
    }
    EXPECT_EQ(h.bins[i].count, inside) << "bin " << i;
    total += inside;
  }
  EXPECT_EQ(total, values.size());
}

TEST(Histogram, AConstantTensorHasOneBin) {
  const auto h = histogram_of<float>(DType::kF32, {2.5F, 2.5F, 2.5F}, 16);
  ASSERT_EQ(h.bins.size(), 1u);
  EXPECT_EQ(h.bins[0].low, Number(2.5));
  EXPECT_EQ(h.bins[0].count, 3u);
}

TEST(Histogram, WithoutFiniteValuesThereIsNoBin) {
  EXPECT_TRUE(histogram_of<float>(DType::kF32, {kNan, kInf}, 16).bins.empty());
  EXPECT_TRUE(histogram_of<float>(DType::kF32, {}, 16).bins.empty());
}

TEST(Histogram, ARangeBeyondTheLargestDoubleIsNoTrouble) {
  const double max = std::numeric_limits<double>::max();
  const auto h = histogram_of<double>(DType::kF64, {-max, 0, max}, 4);
  EXPECT_EQ(counts(h), (std::vector<uint64_t>{1, 0, 1, 1}));
}

TEST(Histogram, SubnormalsAreTold) {
  const double tiny = std::numeric_limits<double>::denorm_min();
  const auto h = histogram_of<double>(DType::kF64, {0, tiny, tiny}, 2);
  EXPECT_EQ(h.finite, 3u);
  const auto c = counts(h);
  EXPECT_EQ(std::accumulate(c.begin(), c.end(), uint64_t{0}), 3u);
}

TEST(Histogram, FewIntegersGetOneBinEach) {
  const auto h = histogram_of<int32_t>(DType::kI32, {-1, 0, 0, 2}, 16);
  EXPECT_EQ(counts(h), (std::vector<uint64_t>{1, 2, 0, 1}));
  EXPECT_EQ(h.bins[0].low, Number(int64_t{-1}));
  EXPECT_EQ(h.bins[0].high, Number(int64_t{-1}));
}

TEST(Histogram, IntegersAreCountedExactlyOverTheirWholeRange) {
  const int64_t min = std::numeric_limits<int64_t>::min();
  const int64_t max = std::numeric_limits<int64_t>::max();
  const auto h = histogram_of<int64_t>(DType::kI64, {min, -1, 0, max - 1, max}, 2);
  EXPECT_EQ(counts(h), (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(h.bins[0].high, Number(int64_t{-1}));
  EXPECT_EQ(h.bins[1].high, Number(max));
  const uint64_t top = std::numeric_limits<uint64_t>::max();
  EXPECT_EQ(counts(histogram_of<uint64_t>(DType::kU64, {top, top - 1}, 16)), (std::vector<uint64_t>{1, 1}));
}

TEST(Histogram, ComplexAndPackedElementsHaveTwoValues) {
  const std::vector<std::array<float, 2>> complex = {{1, 2}, {3, 4}};
  EXPECT_EQ(histogram_of(DType::kC64, complex, 4).finite, 4u);
  EXPECT_EQ(histogram_of<uint8_t>(DType::kF4E2M1FNx2, {0x71, 0x0F}, 4).finite, 4u);
}

TEST(Histogram, StridesDoNotMatter) {
  const std::vector<float> storage = {0, 9, 1, 9, 2, 9};
  const int64_t shape[] = {3};
  const int64_t strides[] = {2};
  const auto h = histogram({storage.data(), DType::kF32, shape, strides}, 2);
  EXPECT_EQ(counts(h), (std::vector<uint64_t>{1, 2}));
}

}  // namespace
}  // namespace ttap
