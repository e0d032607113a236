// Every vector path against the plain one, which calls is_close() and ulp_distance().
#include "analyze/compare/pair_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <tuple>

#include "core/element.h"

namespace ttap {
namespace {

void expect_near(double sum, double expected) {
  if (std::isfinite(expected))
    EXPECT_NEAR(sum, expected, 1e-12 * std::fabs(expected));
  else
    EXPECT_EQ(sum, expected);
}

struct Piece {
  alignas(64) double a[kPieceValues + kPiecePadding] = {};
  alignas(64) double b[kPieceValues + kPiecePadding] = {};
  size_t count = 0;

  void add(double x, double y) {
    a[count] = x;
    b[count++] = y;
  }
};

struct Compared {
  PairSums sums = {};
  UlpCounts ulps = {};
  std::vector<double> sq = std::vector<double>(kPieceValues + kPiecePadding);
  std::vector<double> max_abs = sq;
  std::vector<uint64_t> outside = std::vector<uint64_t>(kPieceValues + kPiecePadding);
  std::vector<uint64_t> nonfinite = outside;
};

Compared compared(const PairKernels& kernels, const Piece& piece, const PairRules& rules) {
  Compared result;
  result.ulps.bins.resize(rules.window.bins());
  result.sums = kernels.compare(
      {piece.a, piece.b, nullptr, piece.count}, rules, 0,
      {result.sq.data(), result.max_abs.data(), result.outside.data(), result.nonfinite.data()}, result.ulps);
  return result;
}

void expect_paths_agree(const Piece& piece, const PairRules& rules) {
  const Compared plain = compared(plain_pair_kernels(), piece, rules);
  for (const SimdPath path : {SimdPath::kAvx2, SimdPath::kBest}) {
    const PairKernels& kernels = pair_kernels(path);
    SCOPED_TRACE(std::string(kernels.name));
    const Compared vector = compared(kernels, piece, rules);
    EXPECT_EQ(vector.sums.nonfinite, plain.sums.nonfinite);
    EXPECT_EQ(vector.sums.unequal, plain.sums.unequal);
    EXPECT_EQ(vector.sums.outside, plain.sums.outside);
    EXPECT_EQ(vector.sums.nan_mismatches, plain.sums.nan_mismatches);
    EXPECT_EQ(vector.sums.inf_mismatches, plain.sums.inf_mismatches);
    EXPECT_EQ(vector.sums.max_abs, plain.sums.max_abs);
    EXPECT_EQ(vector.sums.max_rel, plain.sums.max_rel);
    EXPECT_EQ(vector.sums.nonzero_a, plain.sums.nonzero_a);
    EXPECT_EQ(vector.sums.max_ulp, plain.sums.max_ulp);
    EXPECT_EQ(vector.outside, plain.outside);  // each pair as is_close() has it
    EXPECT_EQ(vector.nonfinite, plain.nonfinite);
    EXPECT_EQ(vector.max_abs, plain.max_abs);
    EXPECT_EQ(vector.sq, plain.sq);
    EXPECT_EQ(vector.ulps.bins, plain.ulps.bins);
    EXPECT_EQ(vector.ulps.below - vector.ulps.zeros, plain.ulps.below);
    expect_near(vector.sums.abs, plain.sums.abs);
    expect_near(vector.sums.sq, plain.sums.sq);
    expect_near(vector.sums.aa, plain.sums.aa);
    expect_near(vector.sums.bb, plain.sums.bb);
  }
}

TEST(PairKernels, EveryPathTellsTheSamePairsApart) {
  const Tolerance tolerance{.rtol = 1.0 / 3, .atol = 0.1};
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  Piece piece;
  // On the very edge of the tolerance and one step to either side of it.
  while (piece.count + 3 < kPieceValues - 5) {
    const double a = normal(random);
    const double edge = a + (random() % 2 ? 1 : -1) * (tolerance.atol + tolerance.rtol * std::fabs(a));
    piece.add(a, edge);
    piece.add(a, std::nextafter(edge, a));
    piece.add(a, std::nextafter(edge, 2 * edge));
  }
  expect_paths_agree(piece, {.tolerance = tolerance});
}

TEST(PairKernels, EveryPathKnowsSpecialValues) {
  const double max = std::numeric_limits<double>::max();
  const double tiny = std::numeric_limits<double>::denorm_min();
  const double special[] = {0.0,  -0.0, 1,     -1,    NAN,  INFINITY, -INFINITY, max,
                            -max, tiny, -tiny, 1e-40, 3e38, 65520,    1.5};
  Piece piece;
  for (const double a : special)
    for (const double b : special) piece.add(a, b);
  for (const double atol : {0.0, 1.0, static_cast<double>(INFINITY)})
    for (const double rtol : {0.0, 1e-3, static_cast<double>(INFINITY)})
      for (const bool equal_nan : {false, true})
        for (DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF8E4M3FN, DType::kF8E8M0FNU})
          expect_paths_agree(
              piece,
              {.tolerance = {rtol, atol, equal_nan}, .ulp = true, .scale = ulp_scale(dtype), .window = {1, 100, 0}});
}

TEST(PairKernels, EveryPathLeavesOutAMask) {
  Piece piece;
  for (size_t i = 0; i < 700; ++i) {
    const bool masked = i % 7 < 3 || (i > 100 && i < 200);
    piece.add(masked ? -INFINITY : 1, masked ? -INFINITY : i % 2 == 0 ? 1 : 1.25);
  }
  expect_paths_agree(piece, {.ulp = true, .scale = ulp_scale(DType::kBF16), .window = {1, 100, 0}});
}

TEST(PairKernels, EveryPathCountsTheSameSteps) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  for (DType dtype : kAllDTypes) {
    if (dtype_info(dtype).kind != DTypeKind::kFloat) continue;
    SCOPED_TRACE(std::string(dtype_name(dtype)));
    Piece piece;
    while (piece.count < 1001) {
      const double a = normal(random) * std::exp2(normal(random) * 12);
      piece.add(a, random() % 8 == 0 ? a : a * (1 + 0.01 * normal(random)));
    }
    for (const UlpWindow window :
         {UlpWindow{1, 1, 0}, UlpWindow{1, 2048, 0}, UlpWindow{2, 3, 0}, UlpWindow{500, 10'000'000, 9}})
      expect_paths_agree(piece, {.ulp = true, .scale = ulp_scale(dtype), .window = window});
  }
}

// Where both sides have one dtype, steps are counted from the bits.
template <class Word>
void expect_steps_from_bits(DType dtype, uint32_t step) {
  SCOPED_TRACE(std::string(dtype_name(dtype)));
  std::mt19937 random(1);
  std::vector<Word> a(999), b(999);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<Word>(random());
    b[i] = i % 5 == 0 ? static_cast<Word>(random()) : static_cast<Word>(a[i] + random() % step);
  }
  const auto* words_a = reinterpret_cast<const std::byte*>(a.data());
  const auto* words_b = reinterpret_cast<const std::byte*>(b.data());
  Piece piece;
  for (size_t i = 0; i < a.size(); ++i) piece.add(value_of(dtype, &a[i]), value_of(dtype, &b[i]));
  for (const UlpWindow window : {UlpWindow{1, 1, 0}, UlpWindow{1, 60, 0}, UlpWindow{20, uint64_t{1} << 33, 20},
                                 UlpWindow{uint64_t{1} << 34, uint64_t{1} << 35, 20}}) {
    const PairRules rules{.ulp = true, .scale = ulp_scale(dtype), .window = window, .words = word_format(dtype, dtype)};
    ASSERT_EQ(rules.words.bytes, sizeof(Word));
    const auto steps = [&](const PairKernels& kernels) {
      UlpCounts counts{.bins = std::vector<uint64_t>(window.bins())};
      const uint64_t most =
          kernels.compare({piece.a, piece.b, nullptr, piece.count, words_a, words_b}, rules, 0, {}, counts).max_ulp;
      std::ranges::sort(counts.kept);
      return std::tuple(most, counts.below - counts.zeros, counts.bins, counts.kept);
    };
    for (const SimdPath path : {SimdPath::kAvx2, SimdPath::kBest})
      EXPECT_TRUE(steps(pair_kernels(path)) == steps(plain_pair_kernels())) << pair_kernels(path).name;
  }
}

TEST(PairKernels, EveryPathCountsTheSameStepsFromTheBits) {
  expect_steps_from_bits<uint32_t>(DType::kF32, 3000);
  expect_steps_from_bits<uint16_t>(DType::kBF16, 40);
  expect_steps_from_bits<uint16_t>(DType::kF16, 40);
  expect_steps_from_bits<uint8_t>(DType::kF8E4M3FN, 4);
  expect_steps_from_bits<uint8_t>(DType::kF8E5M2, 4);
}

TEST(PairKernels, EveryPathWidensExactly) {
  std::vector<uint16_t> halves(65536);
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);
  for (const SimdPath path : {SimdPath::kScalar, SimdPath::kAvx2, SimdPath::kBest}) {
    const PairKernels& kernels = pair_kernels(path);
    SCOPED_TRACE(std::string(kernels.name));
    for (size_t first = 0; first < halves.size(); first += 1021) {
      alignas(64) double f16[1024], bf16[1024];
      const size_t count = std::min<size_t>(1021, halves.size() - first);
      const auto* bytes = reinterpret_cast<const std::byte*>(halves.data() + first);
      kernels.widen_f16(bytes, count, f16);
      kernels.widen_bf16(bytes, count, bf16);
      for (size_t i = 0; i < count; ++i) {
        const double x = value_of(DType::kF16, bytes + 2 * i), y = value_of(DType::kBF16, bytes + 2 * i);
        ASSERT_TRUE(f16[i] == x || (std::isnan(x) && std::isnan(f16[i]))) << first + i;
        ASSERT_TRUE(bf16[i] == y || (std::isnan(y) && std::isnan(bf16[i]))) << first + i;
      }
    }
  }
}

TEST(PairKernels, EveryPathHasTheSameDistanceOfIntegers) {
  std::mt19937_64 random(1);
  std::vector<uint64_t> a(1003), b(1003);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = random();
    b[i] = i % 3 == 0 ? a[i] + (i % 5) - 2 : i % 3 == 1 ? random() : a[i] ^ (uint64_t{1} << i % 64);
  }
  const auto* bytes_a = reinterpret_cast<const std::byte*>(a.data());
  const auto* bytes_b = reinterpret_cast<const std::byte*>(b.data());
  alignas(64) double expected[1024] = {}, actual[1024] = {};
  for (const auto distance : {&PairKernels::distance_i64, &PairKernels::distance_u64}) {
    (plain_pair_kernels().*distance)(bytes_a, bytes_b, a.size(), expected);
    for (const SimdPath path : {SimdPath::kAvx2, SimdPath::kBest}) {
      (pair_kernels(path).*distance)(bytes_a, bytes_b, a.size(), actual);
      EXPECT_TRUE(std::ranges::equal(actual, expected)) << pair_kernels(path).name;
    }
  }
}

}  // namespace
}  // namespace ttap
