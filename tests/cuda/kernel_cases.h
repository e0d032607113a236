#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "core/mix64.h"
#include "stats_agreement.h"
#include "ttap/fingerprint.h"

// What the kernels are tried on, and when their results are as good as the CPU's.
namespace ttap::test {

using Bytes = std::vector<std::byte>;

inline size_t real_size(DType dtype) {
  return dtype_info(dtype).kind == DTypeKind::kComplex ? size_of(dtype) / 2 : size_of(dtype);
}
inline bool is_f64(DType dtype) { return dtype == DType::kF64 || dtype == DType::kC128; }

// `bits_of` is called by several threads.
template <class BitsOf>
Bytes values_of(DType dtype, size_t elements, BitsOf bits_of) {
  Bytes bytes(elements * size_of(dtype));
  const size_t size = real_size(dtype);
  const size_t count = bytes.size() / size;
  const auto make = [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const uint64_t bits = bits_of(i);
      std::memcpy(&bytes[i * size], &bits, size);
    }
  };
  constexpr size_t kWorthAThread = size_t{1} << 19;
  const size_t threads =
      std::clamp<size_t>(count / kWorthAThread, 1, std::max(1u, std::thread::hardware_concurrency()));
  std::vector<std::jthread> others;
  for (size_t i = 1; i < threads; ++i) others.emplace_back(make, count * i / threads, count * (i + 1) / threads);
  make(0, count / threads);
  others.clear();  // waits for them
  return bytes;
}

// Any bits at all; the exponents of f64 are held where squares do not overflow.
inline Bytes any_bits(DType dtype, size_t elements, uint64_t seed = 1) {
  return values_of(dtype, elements, [&](size_t i) {
    const uint64_t random = mix64(seed * 0x9E3779B97F4A7C15u + i);
    if (!is_f64(dtype)) return random;
    const uint64_t kind = mix64(random) % 64;
    if (kind == 0) return (random & 0x800FFFFFFFFFFFFFu) | 0x7FF0000000000000u;  // NaN
    if (kind == 1) return (random & 0x8000000000000000u) | 0x7FF0000000000000u;  // infinity
    if (kind == 2) return random & 0x800FFFFFFFFFFFFFu;                          // subnormal
    return (random & 0x800FFFFFFFFFFFFFu) | ((1023 - 100 + kind * 3) << 52);
  });
}

// The bits of a number in a format of at least 16 bits; what has fewer takes the number's own bits.
inline uint64_t bits_of(DType dtype, double value) {
  const auto as_bits = [](auto v) {
    uint64_t bits = 0;
    std::memcpy(&bits, &v, sizeof v);
    return bits;
  };
  switch (dtype) {
    case DType::kF64:
    case DType::kC128: return as_bits(value);
    case DType::kF32:
    case DType::kC64: return as_bits(static_cast<float>(value));
    case DType::kBF16: return as_bits(static_cast<float>(value)) >> 16;
    case DType::kF16: {
      if (value == 0) return 0;
      int exponent;
      const double fraction = std::frexp(std::fabs(value), &exponent);  // in [0.5, 1)
      const auto mantissa = static_cast<uint64_t>(std::ldexp(fraction, 11)) & 0x3FF;
      return (value < 0 ? 0x8000u : 0u) | static_cast<uint64_t>(exponent + 14) << 10 | mantissa;
    }
    default: return static_cast<uint64_t>(static_cast<int64_t>(value));
  }
}

// About normal: the sum of four uniform numbers.
inline double about_normal(uint64_t seed, size_t i) {
  const uint64_t random = mix64(seed + i);
  double sum = -2;
  for (int part = 0; part < 4; ++part) sum += static_cast<double>(random >> (16 * part) & 0xFFFF) / 65536.0;
  return sum * 1.7;
}

struct KernelCase {
  std::string name;
  std::function<Bytes(DType, size_t)> make;
};

inline const std::vector<KernelCase>& kernel_cases() {
  static const auto spread = [](double mean, double deviation) {
    return [=](DType dtype, size_t n) {
      return values_of(dtype, n, [&](size_t i) { return bits_of(dtype, mean + deviation * about_normal(3, i)); });
    };
  };
  static const std::vector<KernelCase> cases = {
      {"any bits", [](DType dtype, size_t n) { return any_bits(dtype, n); }},
      {"tame", spread(0, 100)},
      {"half zeros",
       [](DType dtype, size_t n) {
         return values_of(dtype, n, [&](size_t i) { return bits_of(dtype, std::fmax(0, 100 * about_normal(4, i))); });
       }},
      {"constant",
       [](DType dtype, size_t n) { return values_of(dtype, n, [&](size_t) { return bits_of(dtype, 3); }); }},
      {"all zero", [](DType dtype, size_t n) { return Bytes(n * size_of(dtype)); }},
      {"all ones", [](DType dtype, size_t n) { return Bytes(n * size_of(dtype), std::byte{0xFF}); }},  // NaN, or −1
      {"one outlier",
       [](DType dtype, size_t n) {
         return values_of(dtype, n, [&](size_t i) { return bits_of(dtype, i == 5 ? 30000 : 1.5 + double(i % 2)); });
       }},
      {"an outlier in front",
       [](DType dtype, size_t n) {
         return values_of(dtype, n, [&](size_t i) { return bits_of(dtype, i == 0 ? -30000 : 3 + double(i % 2)); });
       }},
      {"mean far above the spread", spread(30000, 5)},
      {"infinities in every other place",
       [](DType dtype, size_t n) {
         return values_of(dtype, n, [&](size_t i) {
           const double value =
               i % 2 == 0 && dtype_info(dtype).kind >= DTypeKind::kFloat ? -INFINITY : about_normal(5, i);
           if (dtype == DType::kF16 && std::isinf(value)) return uint64_t{0xFC00};
           return bits_of(dtype, value);
         });
       }},
  };
  return cases;
}

// Of f64: values whose sums, or those of whose magnitudes or squares, are beyond double, or nearly.
inline const std::vector<KernelCase>& huge_cases() {
  static constexpr double kMost = std::numeric_limits<double>::max();
  static const auto filled = [](double (*value)(size_t i, size_t count)) {
    return [=](DType dtype, size_t n) {
      return values_of(dtype, n, [&](size_t i) { return bits_of(dtype, value(i, n)); });
    };
  };
  static const std::vector<KernelCase> cases = {
      {"the largest", filled([](size_t, size_t) { return -kMost; })},
      {"nearly the largest", filled([](size_t i, size_t) { return i % 3 == 0 ? kMost : 0.9 * kMost; })},
      {"two opposites", filled([](size_t i, size_t) { return i == 8   ? 1.7e308
                                                             : i == 9 ? -1.7e308
                                                                      : 0; })},
      {"two and one", filled([](size_t i, size_t) { return i == 0 || i == 512 ? 1.2e308
                                                           : i == 2           ? -1.2e308
                                                                              : 0; })},
      {"of both signs", filled([](size_t i, size_t) { return i % 2 == 0 ? kMost : -0.5 * kMost; })},
      {"halves of both signs", filled([](size_t i, size_t n) { return i < n / 2 ? kMost : -0.75 * kMost; })},
      {"a small one in front", filled([](size_t i, size_t) { return i == 0 ? 3.25 : 0.3 * kMost; })},
      {"just not huge", filled([](size_t i, size_t) { return i % 7 == 3 ? -0x1p960 : 0x1.fffp959; })},
      {"large ones, one huge",
       filled([](size_t i, size_t) { return i == 77 ? 0.9 * kMost : 1e288 + 1e286 * double(i % 5); })},
      {"random",
       filled([](size_t i, size_t) { return kMost * (2 * std::fmod(double(i * i) * 0.6180339887, 1.0) - 1); })},
      {"spread within double, one in front",
       filled([](size_t i, size_t) { return i == 0 ? 7e153 : 0.25 * double(i % 3); })},
      {"spread within double, one behind",
       filled([](size_t i, size_t n) { return i == n - 1 ? -7e153 : 1e150 + 1e147 * about_normal(3, i); })},
      {"spread within double, every other",
       filled([](size_t i, size_t n) { return i % 2 == 0 ? 8e153 / std::sqrt(double(n)) : 0; })},
      {"spread within double, two halves",
       filled([](size_t i, size_t n) { return (i < n / 2 ? 4e153 : -4e153) / std::sqrt(double(n)); })},
      {"spread within double, far from zero",
       filled([](size_t i, size_t n) { return (1000 + about_normal(3, i)) * 2e153 / std::sqrt(double(n)); })},
      {"random, with NaN and infinity", filled([](size_t i, size_t) {
         if (i % 5 == 1) return i % 2 == 0 ? double{NAN} : -double{INFINITY};
         return kMost * (1.5 * std::fmod(double(i * i) * 0.6180339887, 1.0) - 0.5);
       })},
  };
  return cases;
}

inline ::testing::AssertionResult agrees_but_for_sketch(const Fingerprint& actual, const Fingerprint& expected) {
  if (!(actual.hash == expected.hash))
    return ::testing::AssertionFailure() << "hash " << to_string(actual.hash) << ", not " << to_string(expected.hash);
  return agrees(actual.stats, expected.stats);
}

inline ::testing::AssertionResult agrees(const Fingerprint& actual, const Fingerprint& expected) {
  if (actual.has_sketch != expected.has_sketch)
    return ::testing::AssertionFailure() << (actual.has_sketch ? "a sketch" : "no sketch");
  const double off = sketched_distance(actual.sketch, expected.sketch);
  const double size = sketched_distance(expected.sketch, {});
  if (!(off <= 1e-6 * size))
    return ::testing::AssertionFailure() << "a sketch that is off by " << off << " of " << size;
  return agrees_but_for_sketch(actual, expected);
}

}  // namespace ttap::test
