// Every vector path this CPU has, against the plain one: the same bits.
#include "quant/row_kernels.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "made_group.h"
#include "quant/element_codes.h"

namespace ttap {
namespace {

std::vector<const RowKernels*> paths() {
  std::vector<const RowKernels*> found;
  for (const SimdPath path : {SimdPath::kAvx2, SimdPath::kAvx512, SimdPath::kBest}) found.push_back(&row_kernels(path));
  return found;
}

// Any bits: subnormal numbers, infinities and NaN among them.
std::vector<float> any_floats(size_t count, unsigned seed) {
  const auto bytes = random_bytes(count * 4, seed);
  std::vector<float> values(count);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  for (size_t i = 0; i < count; i += 3)
    values[i] = std::ldexp(values[i] > 0 ? 1.3F : -1.7F, static_cast<int>(i % 40) - 20);
  return values;
}

constexpr size_t kCounts[] = {0, 1, 7, 16, 33, 100, 160, 257};
constexpr size_t kRuns[] = {1, 16, 32, 272};

// Of decoded values: which NaN it is counts too.
bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

TEST(RowKernels, DecodeAlike) {
  const auto& plain = plain_row_kernels();
  const auto codes = random_bytes(257, 1);
  const auto scales = any_floats(257, 2), zeros = normal_values(257, 3);
  for (const RowKernels* path : paths())
    for (const size_t count : kCounts)
      for (const size_t run : kRuns) {
        std::vector<float> expected(count), found(count);
        const float* table = code_table(QuantElement::kE5M2).data();
        plain.decode(codes.data(), count, run, table, scales.data(), expected.data());
        path->decode(codes.data(), count, run, table, scales.data(), found.data());
        ASSERT_TRUE(same_bits(found, expected)) << path->name << count << ' ' << run;
        const float* pairs = pair_table(QuantElement::kE2M1).data();
        plain.decode_pairs(codes.data(), count, run, pairs, scales.data(), expected.data());
        path->decode_pairs(codes.data(), count, run, pairs, scales.data(), found.data());
        ASSERT_TRUE(same_bits(found, expected)) << path->name << count << ' ' << run;
        table = code_table(QuantElement::kInt8).data();
        plain.decode(codes.data(), count, run, table, scales.data(), expected.data());
        path->decode_int8(codes.data(), count, run, table, scales.data(), found.data());
        ASSERT_TRUE(same_bits(found, expected)) << path->name << count << ' ' << run;
        plain.decode_affine(codes.data(), count, run, table, scales.data(), zeros.data(), expected.data());
        path->decode_affine(codes.data(), count, run, table, scales.data(), zeros.data(), found.data());
        ASSERT_TRUE(same_bits(found, expected)) << path->name << count << ' ' << run;
        path->decode_affine_int8(codes.data(), count, run, table, scales.data(), zeros.data(), found.data());
        ASSERT_TRUE(same_bits(found, expected)) << path->name << count << ' ' << run;
      }
}

TEST(RowKernels, EncodeAlike) {
  const auto& plain = plain_row_kernels();
  const auto values = any_floats(4096, 4);
  const auto factors = normal_values(4096, 5), zeros = normal_values(4096, 6);
  for (const RowKernels* path : paths())
    for (int e = 0; e <= static_cast<int>(QuantElement::kUInt4); ++e)
      for (const size_t run : {size_t{1}, size_t{32}}) {
        const auto element = static_cast<QuantElement>(e);
        std::vector<uint8_t> expected(4095), found(4095);
        for (const Scaling scaling : {Scaling::kMultiply, Scaling::kDivide}) {
          if (is_integer(element)) {
            plain.encode_integer(element, values.data(), 4095, run, factors.data(), zeros.data(), expected.data());
            path->encode_integer(element, values.data(), 4095, run, factors.data(), zeros.data(), found.data());
          } else {
            plain.encode(element, scaling, values.data(), 4095, run, factors.data(), expected.data());
            path->encode(element, scaling, values.data(), 4095, run, factors.data(), found.data());
          }
          ASSERT_EQ(found, expected) << path->name << ' ' << e << ' ' << run;
        }
      }
}

TEST(RowKernels, WidenAndNarrowAlike) {
  const auto& plain = plain_row_kernels();
  std::vector<uint16_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  const auto values = any_floats(65536, 8);
  for (const RowKernels* path : paths()) {
    std::vector<float> wide(65536), expected(65536);
    for (const auto widen : {&RowKernels::from_bf16, &RowKernels::from_f16}) {
      (plain.*widen)(all.data(), all.size(), expected.data());
      (path->*widen)(all.data(), all.size(), wide.data());
      EXPECT_TRUE(same_values(wide, expected)) << path->name;
    }
    std::vector<uint16_t> narrow(65535), expected_narrow(65535);
    for (const auto to : {&RowKernels::to_bf16, &RowKernels::to_f16}) {
      (plain.*to)(values.data(), 65535, expected_narrow.data());
      (path->*to)(values.data(), 65535, narrow.data());
      EXPECT_EQ(narrow, expected_narrow) << path->name;
    }
  }
}

TEST(RowKernels, EveryHalfSurvivesWideningAndNarrowing) {
  std::vector<uint16_t> all(65536), back(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  std::vector<float> wide(65536);
  const auto& kernels = plain_row_kernels();
  kernels.from_f16(all.data(), all.size(), wide.data());
  kernels.to_f16(wide.data(), wide.size(), back.data());
  for (size_t i = 0; i < all.size(); ++i)
    if (!std::isnan(wide[i])) {
      ASSERT_EQ(back[i], all[i]);
    }
  const float ties[] = {1 + 0x1p-11F, 1 + 3 * 0x1p-11F, 0x1p-25F, 3 * 0x1p-25F, 65519.99F, 65520};
  const uint16_t expected[] = {0x3C00, 0x3C02, 0, 2, 0x7BFF, 0x7C00};
  kernels.to_f16(ties, 6, back.data());
  EXPECT_TRUE(std::equal(expected, expected + 6, back.begin()));
}

TEST(RowKernels, ExtremesAlike) {
  const auto& plain = plain_row_kernels();
  auto values = any_floats(257, 12);
  std::fill(values.begin() + 32, values.begin() + 64, 0.0F);
  for (const RowKernels* path : paths())
    for (const size_t count : kCounts)
      for (const size_t run : kRuns) {
        std::vector<uint32_t> largest(257, 0), least(257, 0xFFFFFFFF), top(257, 0), bottom(257, 0xFFFFFFFF);
        plain.extremes(values.data(), count, run, largest.data(), least.data());
        path->extremes(values.data(), count, run, top.data(), bottom.data());
        ASSERT_EQ(top, largest) << path->name << count << ' ' << run;
        ASSERT_EQ(bottom, least) << path->name << count << ' ' << run;
      }
}

TEST(RowKernels, ErrorsAlike) {
  const auto& plain = plain_row_kernels();
  auto before = normal_values(257, 1), after = normal_values(257, 2);
  before[3] = std::numeric_limits<float>::quiet_NaN();
  before[40] = after[41] = std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < 257; i += 5) after[i] = 0;
  before[10] = 0;
  const std::vector<float> lower(257, -1.5F), upper(257, 1.5F);
  for (const RowKernels* path : paths())
    for (const size_t count : kCounts)
      for (const size_t run : kRuns) {
        RowErrors expected, found;
        plain.errors(before.data(), after.data(), count, run, lower.data(), upper.data(), expected);
        path->errors(before.data(), after.data(), count, run, lower.data(), upper.data(), found);
        ASSERT_EQ(found.not_finite, expected.not_finite);
        ASSERT_EQ(found.underflow, expected.underflow);
        ASSERT_EQ(found.overflow, expected.overflow);
        ASSERT_EQ(found.max_error, expected.max_error);
        ASSERT_NEAR(found.squares, expected.squares, 1e-12 * (1 + expected.squares));
        ASSERT_NEAR(found.error_squares, expected.error_squares, 1e-12 * (1 + expected.error_squares));
      }
}

}  // namespace
}  // namespace ttap
