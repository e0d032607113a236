#include "analyze/compare/detail.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numeric>

#include "not_finite.h"

namespace ttap {
namespace {

PairDetail detail(const std::vector<float>& a, const std::vector<float>& b, const std::vector<int64_t>& shape,
                  const MeasureOptions& options = {}, size_t bins = 4, size_t worst = 3) {
  return detail_of({a.data(), DType::kF32, shape, {}}, {b.data(), DType::kF32, shape, {}}, options, bins, worst);
}

std::vector<uint64_t> elements(const PairDetail& detail) {
  std::vector<uint64_t> result;
  for (const WorstPair& pair : detail.worst) result.push_back(pair.element);
  return result;
}

TEST(Heat, TheLastAxisGoesRightAndAllOthersDown) {
  std::vector<float> a(12), b(12);
  b[0] = -1;  // [0, 0, 0]
  b[11] = 2;  // [1, 1, 2]
  const HeatMap heat = detail(a, b, {2, 2, 3}).heat;
  EXPECT_EQ(heat.rows, 4u);
  EXPECT_EQ(heat.columns, 3u);
  EXPECT_EQ(heat.cells_down, 4u);
  EXPECT_EQ(heat.cells_right, 3u);
  EXPECT_EQ(heat.cells, (std::vector<float>{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}));
}

TEST(Heat, ACellOfALargeTensorHoldsTheLargestErrorOfItsElements) {
  const int64_t rows = 300, columns = 1000;
  std::vector<float> a(rows * columns), b(rows * columns);
  b[7 * columns + 999] = 3;
  b[8 * columns + 993] = 4;
  const HeatMap heat = detail(a, b, {rows, columns}).heat;
  EXPECT_EQ(heat.row_step, 3u);
  EXPECT_EQ(heat.column_step, 8u);
  EXPECT_EQ(heat.cells_down, 100u);
  EXPECT_EQ(heat.cells_right, 125u);
  ASSERT_EQ(heat.cells.size(), 100u * 125u);
  EXPECT_EQ(heat.cells[2 * 125 + 124], 4);
  EXPECT_EQ(std::accumulate(heat.cells.begin(), heat.cells.end(), 0.0F), 4);
}

TEST(Heat, ALongVectorIsFolded) {
  std::vector<float> a(1000), b(1000);
  b[999] = 1;
  const HeatMap heat = detail(a, b, {1000}).heat;
  EXPECT_EQ(heat.columns, 32u);
  EXPECT_EQ(heat.rows, 32u);
  EXPECT_EQ(heat.cells[31 * 32 + 7], 1);
}

TEST(Heat, AMismatchIsInfinitelyHot) {
  const HeatMap heat = detail({1, NAN, kInf, NAN}, {kInf, NAN, kInf, 0}, {4}, {.tolerance = {.equal_nan = true}}).heat;
  EXPECT_EQ(heat.cells, (std::vector<float>{kInf, 0, 0, kInf}));
}

TEST(Heat, AnErrorBeyondAFloatIsNoMismatch) {
  const std::vector<double> a = {1}, b = {1e300};
  const std::vector<int64_t> shape = {1};
  const PairDetail d = detail_of({a.data(), DType::kF64, shape, {}}, {b.data(), DType::kF64, shape, {}}, {});
  EXPECT_EQ(d.heat.cells, std::vector<float>{std::numeric_limits<float>::max()});
}

TEST(Heat, AnEmptyTensorHasNoCellsAndAScalarOne) {
  EXPECT_TRUE(detail({}, {}, {0, 5}).heat.cells.empty());
  EXPECT_EQ(detail({1}, {3}, {}).heat.cells, std::vector<float>{2});
}

TEST(Heat, TheTwoValuesOfAnElementShareACell) {
  const std::vector<std::array<float, 2>> a = {{0, 0}, {0, 0}}, b = {{0, 2}, {1, 0}};
  const std::vector<int64_t> shape = {2};
  const PairDetail d = detail_of({a.data(), DType::kC64, shape, {}}, {b.data(), DType::kC64, shape, {}}, {});
  EXPECT_EQ(d.heat.cells, (std::vector<float>{2, 1}));
}

TEST(PairHistogram, BothTensorsAreCountedInTheSameBins) {
  const PairHistogram h = detail({0, 1, 2, NAN}, {0, 4, 4, kInf}, {4}).histogram;
  EXPECT_EQ(h.low, 0);
  EXPECT_EQ(h.high, 4);
  EXPECT_EQ(h.a, (std::vector<uint64_t>{1, 1, 1, 0}));
  EXPECT_EQ(h.b, (std::vector<uint64_t>{1, 0, 0, 2}));  // the last bin holds its upper edge
}

TEST(PairHistogram, OneValueNeedsOneBinAndNoneNone) {
  EXPECT_EQ(detail({2, 2}, {2, 2}, {2}).histogram.a, std::vector<uint64_t>{2});
  EXPECT_TRUE(detail({NAN}, {kInf}, {1}).histogram.a.empty());
}

TEST(PairHistogram, ARangeBeyondTheLargestDoubleIsNoTrouble) {
  const double max = std::numeric_limits<double>::max();
  const std::vector<double> a = {-max, 0, max};
  const std::vector<int64_t> shape = {3};
  const TensorView view{a.data(), DType::kF64, shape, {}};
  EXPECT_EQ(detail_of(view, view, {}, 4).histogram.a, (std::vector<uint64_t>{1, 0, 1, 1}));
}

TEST(WorstPairs, MismatchesComeFirstThenTheLargestErrors) {
  const PairDetail d = detail({0, 0, 0, 0, 0}, {1, 5, NAN, 2, kInf}, {5}, {}, 4, 4);
  EXPECT_EQ(elements(d), (std::vector<uint64_t>{2, 4, 1, 3}));
  EXPECT_EQ(d.worst[2].b, Number(5.0));
}

TEST(WorstPairs, OfEqualErrorsTheFirstCount) {
  EXPECT_EQ(elements(detail({0, 0, 0, 0, 0}, {1, 3, 1, 1, 1}, {5})), (std::vector<uint64_t>{1, 0, 2}));
}

TEST(WorstPairs, EqualPairsAreNotListed) {
  EXPECT_EQ(elements(detail({1, 2, 3}, {1, 2, 4}, {3})), std::vector<uint64_t>{2});
  EXPECT_TRUE(detail({1, kInf}, {1, kInf}, {2}).worst.empty());
}

TEST(WorstPairs, TheFirstIsTheWorstOfTheMeasures) {
  std::vector<float> a(5000), b(5000);
  for (size_t i = 0; i < a.size(); ++i) b[i] = std::sin(static_cast<float>(i));
  const std::vector<int64_t> shape = {50, 100};
  const Measures m = measure({a.data(), DType::kF32, shape, {}}, {b.data(), DType::kF32, shape, {}});
  EXPECT_EQ(detail(a, b, shape).worst[0].element, m.worst->element);
}

TEST(WorstPairs, IntegersAreExact) {
  const int64_t big = (int64_t{1} << 60) + 1;
  const std::vector<int64_t> a = {big, big}, b = {big, big - 1}, shape = {2};
  const PairDetail d = detail_of({a.data(), DType::kI64, shape, {}}, {b.data(), DType::kI64, shape, {}}, {});
  ASSERT_EQ(elements(d), std::vector<uint64_t>{1});
  EXPECT_EQ(d.worst[0].b, Number(big - 1));
  EXPECT_EQ(d.heat.cells, (std::vector<float>{0, 1}));
}

TEST(Detail, HasTheAxesWhateverTheOptionsSay) {
  const PairDetail d = detail({0, 0, 0, 0}, {0, 0, 0, 2}, {2, 2}, {.axes = false});
  ASSERT_EQ(d.axes.size(), 2u);
  EXPECT_EQ(d.axes[1].max_abs, (std::vector<double>{0, 2}));
}

}  // namespace
}  // namespace ttap
