#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "core/element.h"
#include "flush_subnormals.h"
#include "reference_stats.h"
#include "ttap/fingerprint.h"

namespace ttap {
namespace {

using test::agrees, test::Bytes, test::bytes_of, test::expect_agreement, test::reference, test::smallest_normal,
    test::stats_of;

// Bit for bit.
bool identical(const Stats& a, const Stats& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

// ---- making elements ----

size_t real_size(DType dtype) {
  return dtype_info(dtype).kind == DTypeKind::kComplex ? size_of(dtype) / 2 : size_of(dtype);
}
bool is_f64(DType dtype) { return dtype == DType::kF64 || dtype == DType::kC128; }
bool is_real_float(DType dtype) { return dtype >= DType::kF16 && dtype <= DType::kC128; }

void put(Bytes& bytes, size_t at, uint64_t bits, size_t size) { std::memcpy(&bytes[at], &bits, size); }

using Random = std::mt19937_64;

// Any bits at all; the exponents of f64 are held where squares do not overflow.
Bytes any_bits(DType dtype, size_t count, Random& random) {
  Bytes bytes(count * size_of(dtype));
  for (size_t at = 0; at < bytes.size(); at += real_size(dtype)) {
    uint64_t bits = random();
    if (is_f64(dtype)) bits = (bits & 0x800FFFFFFFFFFFFF) | ((1023 - 100 + random() % 200) << 52);
    put(bytes, at, bits, real_size(dtype));
  }
  return bytes;
}

struct FloatBits {
  uint64_t infinite, least, greatest_subnormal, least_normal, one, greatest, sign;
};

FloatBits float_bits(DType dtype) {
  switch (dtype) {
    case DType::kF16: return {0x7C00, 1, 0x3FF, 0x400, 0x3C00, 0x7BFF, 0x8000};
    case DType::kBF16: return {0x7F80, 1, 0x7F, 0x80, 0x3F80, 0x7F7F, 0x8000};
    case DType::kF32:
    case DType::kC64: return {0x7F800000, 1, 0x7FFFFF, 0x800000, 0x3F800000, 0x7F7FFFFF, 0x80000000};
    default:
      // Not the largest f64: its square is beyond double.
      return {0x7FF0000000000000, 1,         0xFFFFFFFFFFFFF, 0x10000000000000, 0x3FF0000000000000,
              0x4FF0000000000000, 1ull << 63};
  }
}

// Half of it from the corners of the format.
Bytes with_corners(DType dtype, size_t count, Random& random) {
  Bytes bytes = any_bits(dtype, count, random);
  for (size_t at = 0; at < bytes.size(); at += real_size(dtype)) {
    if (random() % 2 == 0) continue;
    uint64_t bits;
    if (is_real_float(dtype)) {
      const FloatBits corner = float_bits(dtype);
      const uint64_t corners[] = {0,
                                  corner.infinite,
                                  corner.infinite + 1,
                                  corner.least,
                                  corner.greatest_subnormal,
                                  corner.least_normal,
                                  corner.one,
                                  corner.greatest};
      bits = corners[random() % 8] | (random() % 2 ? corner.sign : 0);
    } else {
      const uint64_t corners[] = {0, 1, ~uint64_t{0}, uint64_t{1} << (8 * size_of(dtype) - 1),
                                  (uint64_t{1} << (8 * size_of(dtype) - 1)) - 1};
      bits = corners[random() % 5];
    }
    put(bytes, at, bits, real_size(dtype));
  }
  return bytes;
}

Bytes repeated(DType dtype, size_t count, uint64_t bits) {
  Bytes bytes(count * size_of(dtype));
  for (size_t at = 0; at < bytes.size(); at += real_size(dtype)) put(bytes, at, bits, real_size(dtype));
  return bytes;
}

std::vector<size_t> sizes() {
  std::vector<size_t> sizes;
  for (size_t i = 0; i <= 130; ++i) sizes.push_back(i);
  for (size_t i : {511, 512, 513, 1023, 1024, 1025, 2047, 2048, 2049, 4095, 4096, 4097, 10007}) sizes.push_back(i);
  return sizes;
}

class StatsOf : public ::testing::TestWithParam<DType> {};

TEST_P(StatsOf, any_bits_agree_with_the_reference) {
  Random random(11);
  for (size_t count : sizes()) expect_agreement(any_bits(GetParam(), count, random), GetParam(), "any bits");
}

TEST_P(StatsOf, corners_of_the_format_agree_with_the_reference) {
  Random random(12);
  for (size_t count : sizes()) expect_agreement(with_corners(GetParam(), count, random), GetParam(), "corners");
}

TEST_P(StatsOf, one_kind_of_value_only) {
  std::vector<uint64_t> kinds = {0, 1, 0x3A};
  if (is_real_float(GetParam())) {
    const FloatBits corner = float_bits(GetParam());
    kinds = {0,
             corner.sign,
             corner.infinite,
             corner.infinite | corner.sign,
             corner.infinite + 1,
             corner.least,
             corner.greatest_subnormal | corner.sign,
             corner.least_normal,
             corner.one,
             corner.one | corner.sign};
  } else {
    kinds.insert(kinds.end(), {0x7C, 0x7F, 0x80, 0xFC, 0xFF, ~uint64_t{0}});
  }
  for (uint64_t bits : kinds)
    for (size_t count : {1, 2, 31, 32, 33, 64, 100, 4096, 5000}) {
      const Bytes bytes = repeated(GetParam(), static_cast<size_t>(count), bits);
      expect_agreement(bytes, GetParam(), "repeated");
      const Stats stats = stats_of(bytes, GetParam());
      if (stats.finite() != 0 && stats.min == stats.max) {
        EXPECT_EQ(stats.std, 0) << "a constant has no spread";
      }
    }
}

TEST_P(StatsOf, values_of_one_sign_only) {
  Random random(14);
  for (const bool negative : {false, true})
    for (size_t count : {40, 64, 200, 5000}) {
      Bytes bytes = any_bits(GetParam(), static_cast<size_t>(count), random);
      const size_t size = real_size(GetParam());
      for (size_t last = size - 1; last < bytes.size(); last += size) {
        // Such a byte on top makes a finite number of moderate size in every float format.
        bytes[last] =
            negative ? std::byte{0xBE} ^ (bytes[last] & std::byte{1}) : std::byte{0x3E} ^ (bytes[last] & std::byte{1});
      }
      expect_agreement(bytes, GetParam(), negative ? "negative" : "positive");
    }
}

TEST_P(StatsOf, a_single_special_value_is_found_anywhere) {
  uint64_t usual = 0x3A;
  std::vector<uint64_t> specials = {0, 1, 0x7C, 0x7F, 0x80, 0xFC, 0xFF, ~uint64_t{0}};
  if (is_real_float(GetParam())) {
    const FloatBits corner = float_bits(GetParam());
    usual = corner.one;
    specials = {corner.infinite, corner.infinite | corner.sign, corner.infinite + 1, corner.least, 0};
  }
  const size_t count = 150;
  for (uint64_t special : specials)
    for (size_t at = 0; at < count; ++at) {
      Bytes bytes = repeated(GetParam(), count, usual);
      put(bytes, at * size_of(GetParam()), special, real_size(GetParam()));
      expect_agreement(bytes, GetParam(), "one special value");
    }
}

TEST_P(StatsOf, a_large_tensor_agrees_and_threads_do_not_show) {
  Random random(13);
  const Bytes bytes = with_corners(GetParam(), (size_t{5} << 20) / size_of(GetParam()) + 777, random);
  const Stats one = stats_of(bytes, GetParam());
  EXPECT_TRUE(agrees(one, reference(bytes, GetParam())));
  for (unsigned threads : {2u, 3u, 4u})
    EXPECT_TRUE(identical(stats_of(bytes, GetParam(), {threads, SimdPath::kBest}), one));
}

INSTANTIATE_TEST_SUITE_P(EveryDType, StatsOf, ::testing::ValuesIn(kAllDTypes),
                         [](const auto& tested) { return std::string(dtype_name(tested.param)); });

// ---- spread around a large mean ----

template <class T>
std::vector<T> normal(size_t count, double mean, double deviation, uint64_t seed = 21) {
  Random random(seed);
  std::normal_distribution<double> distribution(mean, deviation);
  std::vector<T> values(count);
  for (T& value : values) value = static_cast<T>(distribution(random));
  return values;
}

TEST(Spread, survives_a_mean_far_larger) {
  for (size_t count : {40, 1000, 5000, 300000}) {
    expect_agreement(bytes_of(normal<double>(static_cast<size_t>(count), 1e6, 1)), DType::kF64, "1e6 ± 1");
    expect_agreement(bytes_of(normal<double>(static_cast<size_t>(count), -1e7, 1)), DType::kF64, "-1e7 ± 1");
    expect_agreement(bytes_of(normal<float>(static_cast<size_t>(count), 1e4, 0.1)), DType::kF32, "1e4 ± 0.1");
    expect_agreement(bytes_of(normal<int32_t>(static_cast<size_t>(count), 2e9, 50)), DType::kI32, "2e9 ± 50");
    expect_agreement(bytes_of(normal<uint32_t>(static_cast<size_t>(count), 4e9, 50)), DType::kU32, "4e9 ± 50");
    expect_agreement(bytes_of(normal<int64_t>(static_cast<size_t>(count), -3e9, 1000)), DType::kI64, "-3e9 ± 1000");
    expect_agreement(bytes_of(normal<uint16_t>(static_cast<size_t>(count), 60000, 3)), DType::kU16, "60000 ± 3");
  }
}

TEST(Spread, survives_two_neighbouring_values_of_16_bits) {
  for (DType dtype : {DType::kBF16, DType::kF16})
    for (int bits : {0x0080, 0x3F80, 0x4380, 0x5BFF}) {
      std::vector<uint16_t> values(9000, static_cast<uint16_t>(bits));
      expect_agreement(bytes_of(values), dtype, "constant");
      for (size_t i : {0, 5000, 8999}) ++values[static_cast<size_t>(i)];
      expect_agreement(bytes_of(values), dtype, "a neighbour or two");
    }
}

TEST(Spread, survives_two_neighbouring_integers_of_16_bits) {
  // The sums are exact, but their products need more than 53 bits.
  std::vector<uint16_t> values(6000, 65535);
  for (size_t i : {0, 2500, 5999}) --values[static_cast<size_t>(i)];
  expect_agreement(bytes_of(values), DType::kU16, "65535 and 65534");
  for (uint16_t& value : values) value = static_cast<uint16_t>(value ^ 0x7FFF);
  expect_agreement(bytes_of(values), DType::kI16, "-32768 and -32767");
}

TEST(Spread, survives_powers_of_two_far_below_others) {
  for (size_t few : {1, 40, 2000, 2086})
    for (unsigned distance : {1, 6, 7, 20, 21, 34, 35, 40, 55, 62, 63, 64, 100, 200}) {
      Bytes bytes(4096 + 77, std::byte{201});
      for (size_t i = 0; i < few; ++i) bytes[2 * i + 1] = static_cast<std::byte>(201 - distance);
      expect_agreement(bytes, DType::kF8E8M0FNU, std::to_string(few) + " below by " + std::to_string(distance));
      bytes[5] = std::byte{0xFF};
      expect_agreement(bytes, DType::kF8E8M0FNU, "and a NaN");
    }
}

TEST(Spread, survives_every_two_codes_of_a_byte) {
  for (DType dtype : {DType::kF8E4M3FN, DType::kF8E5M2, DType::kF8E4M3FNUZ, DType::kF8E5M2FNUZ, DType::kF8E8M0FNU})
    for (unsigned a = 0; a < 256; a += 3)
      for (unsigned b = 0; b < 256; b += 5) {
        Bytes bytes(4096, static_cast<std::byte>(a));
        bytes[1000] = static_cast<std::byte>(b);
        EXPECT_TRUE(agrees(stats_of(bytes, dtype), reference(bytes, dtype)))
            << dtype_name(dtype) << ' ' << a << ' ' << b;
      }
}

TEST(Spread, survives_a_mean_that_jumps) {
  // Each stretch is a different number of blocks, so that some jumps fall inside one.
  for (double level : {1e3, 1e6, 1e9}) {
    std::vector<double> values;
    for (size_t stretch : {512, 700, 1, 3000, 512, 10000}) {
      const double mean = values.size() % 2 == 0 ? level : -level / 3;
      const auto more = normal<double>(stretch, mean, 1, stretch);
      values.insert(values.end(), more.begin(), more.end());
    }
    expect_agreement(bytes_of(values), DType::kF64, "jumps");
  }
  std::vector<double> outlier = normal<double>(200000, 1e6, 1);
  outlier[0] = -1e12;
  expect_agreement(bytes_of(outlier), DType::kF64, "an outlier first");
  std::swap(outlier[0], outlier[131072]);
  expect_agreement(bytes_of(outlier), DType::kF64, "an outlier at a chunk's start");
}

TEST(Spread, survives_blocks_that_are_mostly_not_finite) {
  std::vector<float> values = normal<float>(20000, 1e4, 0.1);
  for (size_t i = 0; i < 10000; ++i)
    if (i % 1000 != 7) values[i] = i % 2 ? NAN : INFINITY;
  expect_agreement(bytes_of(values), DType::kF32, "mostly NaN");
}

// ---- what the header promises ----

TEST(Stats, of_nothing_are_empty) {
  for (DType dtype : kAllDTypes) {
    const Stats stats = stats_of({}, dtype);
    EXPECT_EQ(stats.count, 0u);
    EXPECT_TRUE(std::isnan(stats.min) && std::isnan(stats.max) && std::isnan(stats.mean) && std::isnan(stats.std));
    EXPECT_EQ(stats.l1, 0);
    EXPECT_EQ(stats.l2, 0);
  }
}

TEST(Stats, of_zeros_have_no_smallest_nonzero) {
  const Stats stats = stats_of(bytes_of(std::vector<float>(100, -0.0f)), DType::kF32);
  EXPECT_EQ(stats.zeros, 100u);
  EXPECT_TRUE(std::isnan(stats.min_abs_nonzero));
  EXPECT_FALSE(std::signbit(stats.min));
  EXPECT_EQ(stats.max_abs, 0);
}

TEST(Stats, of_bool_count_any_nonzero_byte_as_one) {
  std::vector<uint8_t> values(5000);
  for (size_t i = 0; i < values.size(); i += 2) values[i] = static_cast<uint8_t>(i % 255 + 1);
  const Stats stats = stats_of(bytes_of(values), DType::kBool);
  EXPECT_EQ(stats.zeros, 2500u);
  EXPECT_EQ(stats.max, 1);
  EXPECT_EQ(stats.mean, 0.5);
}

TEST(Stats, of_f64_beyond_the_square_root_of_its_range_are_infinite_not_nan) {
  for (SimdPath path : every_path()) {
    const Stats stats = stats_of(bytes_of(normal<double>(2000, 0, 1e200)), DType::kF64, {1, path});
    EXPECT_EQ(stats.std, INFINITY);
    EXPECT_EQ(stats.l2, INFINITY);
    EXPECT_TRUE(std::isfinite(stats.mean));
  }
}

TEST(Stats, of_a_strided_tensor_are_those_of_its_copy) {
  const auto values = normal<float>(300 * 200, 3, 2);
  std::vector<float> copy;
  for (size_t j = 0; j < 200; ++j)
    for (size_t i = 0; i < 300; ++i) copy.push_back(values[i * 200 + j]);
  const int64_t shape[] = {200, 300};
  const int64_t strides[] = {1, 200};
  EXPECT_TRUE(identical(fingerprint({values.data(), DType::kF32, shape, strides}).stats,
                        stats_of(bytes_of(copy), DType::kF32)));
}

TEST(Stats, see_subnormals_on_a_thread_that_flushes_them) {
  const std::vector<float> values(3000000, 0x1p-140f);  // enough for threads, which inherit the mode
  const FlushSubnormals flush;
  for (unsigned threads : {1u, 2u}) {
    for (SimdPath path : every_path()) {
      const Stats stats = stats_of(bytes_of(values), DType::kF32, {threads, path});
      EXPECT_EQ(stats.subnormals, values.size());
      EXPECT_EQ(stats.min_abs_nonzero, 0x1p-140);
      EXPECT_EQ(stats.mean, 0x1p-140);
    }
  }
  EXPECT_TRUE(FlushSubnormals::is_on()) << "the caller's mode is put back";
}

TEST(SimdPath, names_what_it_gives) {
  EXPECT_EQ(simd_path_name(SimdPath::kScalar), "scalar");
  EXPECT_NE(simd_path_name(SimdPath::kAvx2), "avx512");
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) {
    EXPECT_NE(simd_path_name(), "scalar");
  }
#endif
}

}  // namespace
}  // namespace ttap
