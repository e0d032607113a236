#include "fingerprint/sketch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "paths.h"

namespace ttap {
namespace {

const DType kSketched[] = {DType::kF16, DType::kBF16, DType::kF32, DType::kF64, DType::kC64, DType::kC128};

// Finite values of every size but the huge.
template <class T>
std::vector<T> random_bits(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> distribution(0.5F, 3);
  std::vector<T> bits(count);
  for (T& each : bits) {
    const float value = distribution(random);
    if constexpr (sizeof(T) == 2)
      each = static_cast<T>(std::bit_cast<uint32_t>(value) >> 16);
    else if constexpr (sizeof(T) == 4)
      each = std::bit_cast<uint32_t>(value);
    else
      each = std::bit_cast<uint64_t>(static_cast<double>(value));
  }
  return bits;
}

template <class T>
Fingerprint taken(const std::vector<T>& bits, DType dtype, const FingerprintOptions& options = {}) {
  const int64_t shape[] = {static_cast<int64_t>(bits.size() * sizeof(T) / size_of(dtype))};
  return fingerprint({bits.data(), dtype, shape}, options);
}

// Written from docs/fingerprint.md, by another way than sketch.h.
Sketch by_the_book(const std::vector<double>& values) {
  Sketch sketch = {};
  for (uint64_t i = 0; i < values.size(); ++i) {
    if (!(std::fabs(values[i]) < 18446744073709551616.0)) continue;
    const uint64_t unit = i / 4096, row = i / 256 % 16, group = i / 8 % 32;
    uint64_t place = i % 8;
    if (row % 2 == 1) place = place / 4 * 4 + (place + 2) % 4;
    if (row >= 8) place = (place + 4) % 8;
    const auto mixed = [](uint64_t number) {
      uint64_t x = number % 0x100000000u;
      x = (x ^ (x >> 16)) * 0x85EBCA6Bu % 0x100000000u;
      x = (x ^ (x >> 13)) * 0xC2B2AE35u % 0x100000000u;
      return x ^ (x >> 16);
    };
    const uint64_t seed = mixed(unit % 0x100000000u + unit / 0x100000000u * 0x85EBCA6Bu + 1);
    const uint64_t of_rows = mixed(seed + group % 16 * 0x9E3779B9u);
    const uint64_t of_places = mixed(seed + (16 + group % 8) * 0x9E3779B9u);
    const bool minus = ((of_rows >> (2 * row + group / 16)) & 1) != ((of_places >> place) & 1);
    const uint64_t bucket = ((8 * group + place) % 32) ^ (seed * 0x9E3779B9u % 0x100000000u) >> 27;
    sketch[bucket] += minus ? -values[i] : values[i];
  }
  return sketch;
}

double norm(const Sketch& sketch) { return sketched_distance(sketch, {}); }

template <class T, class Value>
void check_every_path(DType dtype, const Value& value) {
  for (const size_t count : {0, 1, 2, 7, 31, 64, 100, 255, 256, 257, 1000, 2048, 4096, 4100, 20000, 600000}) {
    SCOPED_TRACE(count);
    std::vector<T> bits =
        random_bits<T>(count - (dtype_info(dtype).kind == DTypeKind::kComplex ? count % 2 : 0), count);
    for (int with_others = 0; with_others < 2; ++with_others) {
      if (with_others == 1) {
        if (bits.size() < 64) break;
        const double others[] = {std::nan(""), -INFINITY, 3e38};
        for (size_t i = 0; i < 3; ++i) bits[bits.size() * (i + 1) / 4] = value.bits(others[i]);
      }
      std::vector<double> values;
      for (const T each : bits) values.push_back(value(each));
      const Sketch expected = by_the_book(values);
      for (const SimdPath path : every_path())
        for (const unsigned threads : {1U, 2U}) {
          const Fingerprint found = taken(bits, dtype, {threads, path});
          EXPECT_TRUE(found.has_sketch);
          EXPECT_LE(sketched_distance(found.sketch, expected), 2e-8 * norm(expected))
              << dtype_name(dtype) << " " << simd_path_name(path);
        }
    }
  }
}

struct OfF16 {
  double operator()(uint16_t bits) const { return f32_of_f16(bits); }
  static uint16_t bits(double value) { return std::isnan(value) ? 0x7E00 : value < 0 ? 0xFC00 : 0x7C00; }
};
struct OfBF16 {
  double operator()(uint16_t bits) const { return f32_of_bf16(bits); }
  static uint16_t bits(double value) {
    return static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16);
  }
};
struct OfF32 {
  double operator()(uint32_t bits) const { return std::bit_cast<float>(bits); }
  static uint32_t bits(double value) { return std::bit_cast<uint32_t>(static_cast<float>(value)); }
};
struct OfF64 {
  double operator()(uint64_t bits) const { return std::bit_cast<double>(bits); }
  static uint64_t bits(double value) { return std::bit_cast<uint64_t>(value); }
};

TEST(Sketch, is_what_the_document_says_on_every_path_and_of_every_size) {
  check_every_path<uint16_t>(DType::kF16, OfF16());
  check_every_path<uint16_t>(DType::kBF16, OfBF16());
  check_every_path<uint32_t>(DType::kF32, OfF32());
  check_every_path<uint32_t>(DType::kC64, OfF32());
  check_every_path<uint64_t>(DType::kF64, OfF64());
  check_every_path<uint64_t>(DType::kC128, OfF64());
}

TEST(Sketch, is_the_same_for_every_dtype) {
  for (const size_t count : {1, 7, 300, 4095, 4097, 70'000}) {
    std::vector<double> values(count);
    std::mt19937_64 random(count);
    for (double& value : values) value = static_cast<double>(random() % 256) / 64 - 2;  // exact in 8 bits
    std::vector<float> floats(values.begin(), values.end());
    std::vector<uint16_t> halves;
    for (const float value : floats) halves.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16));
    const Sketch expected = by_the_book(values);
    EXPECT_LE(sketched_distance(taken(values, DType::kF64).sketch, expected), 1e-12 * norm(expected)) << count;
    EXPECT_LE(sketched_distance(taken(floats, DType::kF32).sketch, expected), 1e-12 * norm(expected)) << count;
    EXPECT_LE(sketched_distance(taken(halves, DType::kBF16).sketch, expected), 1e-12 * norm(expected)) << count;
  }
}

TEST(Sketch, is_the_same_for_strides) {
  const auto bits = random_bits<uint32_t>(300 * 200, 5);
  std::vector<uint32_t> turned(bits.size());
  for (size_t i = 0; i < 300; ++i)
    for (size_t j = 0; j < 200; ++j) turned[j * 300 + i] = bits[i * 200 + j];
  const int64_t shape[] = {300, 200};
  const int64_t strides[] = {1, 300};
  EXPECT_EQ(fingerprint({bits.data(), DType::kF32, shape}).sketch,
            fingerprint({turned.data(), DType::kF32, shape, strides}).sketch);
}

TEST(Sketch, integers_and_bytes_have_none) {
  const std::vector<uint32_t> zeros(100);
  for (const DType dtype : kAllDTypes)
    EXPECT_EQ(taken(zeros, dtype).has_sketch, std::ranges::find(kSketched, dtype) != std::end(kSketched))
        << dtype_name(dtype);
}

// ---- what it is for ----

struct Pair {
  std::vector<double> a, b;
};

// One of the ways in which two tensors come to differ, and by how much is left to chance.
Pair random_pair(std::mt19937_64& random) {
  const auto number = [&](uint64_t below) { return random() % below; };
  std::normal_distribution<double> normal;
  const size_t columns = 1 + number(1500);
  const size_t rows = 1 + number(60000 / columns + 1);
  Pair pair;
  pair.a.resize(rows * columns);
  for (double& each : pair.a) each = normal(random) + 0.3;
  pair.b = pair.a;
  const double size = std::exp(-15 * static_cast<double>(number(1000)) / 1000);
  switch (number(4)) {
    case 0:
      for (double& each : pair.b) each += size * normal(random);
      break;
    case 1: std::shuffle(pair.b.begin(), pair.b.end(), random); break;
    case 2:
      for (double& each : pair.b) each *= 1 + size;
      break;
    default: pair.b[number(pair.b.size())] += 1 + normal(random); break;
  }
  return pair;
}

TEST(Sketch, estimates_the_distance_of_10000_pairs_within_three_spreads) {
  std::mt19937_64 random(7);
  size_t within = 0;
  size_t all = 0;
  for (; all < 10000; ++all) {
    const Pair pair = random_pair(random);
    double squares = 0;
    for (size_t i = 0; i < pair.a.size(); ++i) squares += (pair.a[i] - pair.b[i]) * (pair.a[i] - pair.b[i]);
    const Sketch a = taken(pair.a, DType::kF64).sketch;
    const Sketch b = taken(pair.b, DType::kF64).sketch;
    const double distance = std::sqrt(squares);
    const double off = std::fabs(sketched_distance(a, b) - distance);
    within += off <= 3 * sketch_spread(a, b) * distance ? 1 : 0;
  }
  EXPECT_GE(within, all * 99 / 100);
}

TEST(Sketch, sees_a_step_of_bf16_and_a_rounding_of_f32) {
  auto halves = random_bits<uint16_t>(1 << 20, 3);
  const Sketch before = taken(halves, DType::kBF16).sketch;
  const double step = f32_of_bf16(static_cast<uint16_t>(halves[12345] + 1)) - f32_of_bf16(halves[12345]);
  halves[12345] += 1;
  EXPECT_NEAR(sketched_distance(before, taken(halves, DType::kBF16).sketch), std::fabs(step), 1e-3 * std::fabs(step));

  const auto words = random_bits<uint32_t>(1 << 20, 4);
  std::vector<uint32_t> rounded = words;
  std::mt19937_64 random(5);
  double squares = 0;
  for (size_t i = 0; i < words.size(); ++i) {
    rounded[i] += static_cast<uint32_t>(random() % 3) - 1;
    squares += std::pow(std::bit_cast<float>(rounded[i]) - std::bit_cast<float>(words[i]), 2);
  }
  const double distance = std::sqrt(squares);  // about 5e-8 of the norm
  EXPECT_NEAR(sketched_distance(taken(words, DType::kF32).sketch, taken(rounded, DType::kF32).sketch), distance,
              0.375 * distance);
}

// A fault of one column moves few buckets in a small tensor: the spread says so.
TEST(Sketch, a_difference_in_one_column_is_seen_and_its_spread_is_honest) {
  std::mt19937_64 random(11);
  size_t within = 0;
  size_t all = 0;
  for (const size_t columns : {64, 128, 256, 768, 4096})
    for (size_t i = 0; i < 200; ++i, ++all) {
      auto bits = random_bits<uint32_t>(columns * 64, i);
      const Sketch before = taken(bits, DType::kF32).sketch;
      double squares = 0;
      const size_t column = random() % columns;
      for (size_t at = column; at < bits.size(); at += columns) {
        const float value = std::bit_cast<float>(bits[at]);
        squares += 0.01 * value * value;
        bits[at] = std::bit_cast<uint32_t>(1.1F * value);
      }
      const Sketch after = taken(bits, DType::kF32).sketch;
      const double distance = std::sqrt(squares);
      within += std::fabs(sketched_distance(before, after) - distance) <= 3 * sketch_spread(before, after) * distance;
    }
  EXPECT_GE(within, all * 99 / 100);
}

}  // namespace
}  // namespace ttap
