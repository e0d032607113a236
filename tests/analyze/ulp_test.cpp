#include "analyze/compare/ulp.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <vector>

#include "analyze/compare/measures.h"
#include "core/element.h"

namespace ttap {
namespace {

constexpr DType kSmallFloats[] = {DType::kF16,        DType::kBF16,       DType::kF8E4M3FN,  DType::kF8E5M2,
                                  DType::kF8E4M3FNUZ, DType::kF8E5M2FNUZ, DType::kF4E2M1FNx2};

// Every finite value ≥ 0 of a format, ascending.
std::vector<double> values_from_zero(DType dtype) {
  std::vector<double> values;
  const uint32_t patterns = dtype == DType::kF4E2M1FNx2 ? 8 : 1U << (8 * size_of(dtype) - 1);
  for (uint32_t bits = 0; bits < patterns; ++bits)
    if (const double value = value_of(dtype, &bits); std::isfinite(value)) values.push_back(value);
  return values;
}

TEST(Ulp, TheValuesOfAFormatAreNumberedInOrder) {
  for (DType dtype : kSmallFloats) {
    const auto values = values_from_zero(dtype);
    const UlpScale scale = ulp_scale(dtype);
    for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(ulp_index(scale, values[i]), i) << dtype_name(dtype);
    EXPECT_EQ(values.size() - 1, scale.largest) << dtype_name(dtype);
  }
}

TEST(Ulp, RoundsToNearestAndOfTwoEquallyNearToTheEvenOne) {
  for (DType dtype : kSmallFloats) {
    const auto values = values_from_zero(dtype);
    const UlpScale scale = ulp_scale(dtype);
    for (size_t i = 0; i + 1 < values.size(); ++i) {
      const double middle = (values[i] + values[i + 1]) / 2;
      EXPECT_EQ(ulp_index(scale, std::nextafter(middle, 0)), i) << dtype_name(dtype);
      EXPECT_EQ(ulp_index(scale, middle), i % 2 == 0 ? i : i + 1) << dtype_name(dtype);
      EXPECT_EQ(ulp_index(scale, std::nextafter(middle, 1e300)), i + 1) << dtype_name(dtype);
    }
  }
}

TEST(Ulp, BeyondTheLargestFiniteValueLiesOneStep) {
  for (DType dtype : kSmallFloats) {
    const UlpScale scale = ulp_scale(dtype);
    EXPECT_EQ(ulp_index(scale, 1e300), scale.largest + 1) << dtype_name(dtype);
  }
  EXPECT_EQ(ulp_index(ulp_scale(DType::kF16), 65519.9), 0x7BFFu);  // still rounds down to 65504
  EXPECT_EQ(ulp_index(ulp_scale(DType::kF16), 65520.0), 0x7C00u);
}

TEST(Ulp, OfWideFormatsTheBitsCount) {
  const UlpScale f32 = ulp_scale(DType::kF32);
  const UlpScale f64 = ulp_scale(DType::kF64);
  for (const float x : {0.0F, 1e-45F, 1.17549435e-38F, 1.0F, 3.4028235e38F})
    EXPECT_EQ(ulp_index(f32, x), std::bit_cast<uint32_t>(x)) << x;
  EXPECT_EQ(ulp_index(f32, 1e-46), 0u);
  for (const double x : {0.0, 5e-324, 1.0, 1.7976931348623157e308})
    EXPECT_EQ(ulp_index(f64, x), std::bit_cast<uint64_t>(x)) << x;
}

TEST(Ulp, PowersOfTwoHaveAZeroBelowThem) {
  const UlpScale scale = ulp_scale(DType::kF8E8M0FNU);
  EXPECT_EQ(ulp_index(scale, 0), 0u);
  EXPECT_EQ(ulp_index(scale, std::ldexp(1.0, -127)), 1u);
  EXPECT_EQ(ulp_index(scale, std::ldexp(1.0, 127)), 255u);
  EXPECT_EQ(ulp_index(scale, 1.0), 128u);
  EXPECT_EQ(ulp_index(scale, 1.49), 128u);
  EXPECT_EQ(ulp_index(scale, 1.5), 129u);
  EXPECT_EQ(ulp_index(scale, 3.0), 130u);
}

TEST(Ulp, DistanceCrossesZero) {
  const UlpScale f64 = ulp_scale(DType::kF64);
  const double max = std::numeric_limits<double>::max();
  EXPECT_EQ(ulp_distance(f64, -0.0, 0.0), 0u);
  EXPECT_EQ(ulp_distance(f64, -5e-324, 5e-324), 2u);
  EXPECT_EQ(ulp_distance(f64, 1.0, std::nextafter(1.0, 2.0)), 1u);
  EXPECT_EQ(ulp_distance(f64, -max, max), 2 * 0x7FEFFFFFFFFFFFFFu);
}

TEST(Ulp, TheCoarserDTypeHasFewerBitsAndOfEqualsTheSmallerRange) {
  EXPECT_EQ(coarser(DType::kF32, DType::kBF16), DType::kBF16);
  EXPECT_EQ(coarser(DType::kBF16, DType::kF16), DType::kBF16);
  EXPECT_EQ(coarser(DType::kC64, DType::kF64), DType::kC64);
  EXPECT_EQ(coarser(DType::kF8E4M3FNUZ, DType::kF8E4M3FN), DType::kF8E4M3FN);
  EXPECT_EQ(coarser(DType::kF8E5M2FNUZ, DType::kF8E5M2), DType::kF8E5M2);
  EXPECT_EQ(coarser(DType::kI8, DType::kF64), DType::kF64);
  EXPECT_EQ(coarser(DType::kI64, DType::kI32), DType::kI32);
}

}  // namespace
}  // namespace ttap
