#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "core/element.h"
#include "double_double.h"
#include "paths.h"
#include "stats_agreement.h"
#include "ttap/fingerprint.h"

// The statistics of a tensor as a textbook has them, and whether ours agree, on every vector path of this machine.
namespace ttap::test {

using Bytes = std::vector<std::byte>;

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

inline Stats stats_of(const Bytes& bytes, DType dtype, FingerprintOptions options = {}) {
  const int64_t shape[] = {static_cast<int64_t>(bytes.size() / size_of(dtype))};
  return fingerprint({bytes.data(), dtype, shape}, options).stats;
}

// The smallest normal magnitude of a format; nothing below it but zero means subnormal.
inline double smallest_normal(DType dtype) {
  switch (dtype) {
    case DType::kF16: return 0x1p-14;
    case DType::kBF16:
    case DType::kF32:
    case DType::kC64: return 0x1p-126;
    case DType::kF64:
    case DType::kC128: return 0x1p-1022;
    case DType::kF8E4M3FN: return 0x1p-6;
    case DType::kF8E5M2: return 0x1p-14;
    case DType::kF8E4M3FNUZ: return 0x1p-7;
    case DType::kF8E5M2FNUZ: return 0x1p-15;
    case DType::kF4E2M1FNx2: return 1.0;
    default: return 0;
  }
}

// Two passes in double-double, as in a textbook. The values are divided by a power of two, so that no square overflows.
inline Stats reference(const Bytes& bytes, DType dtype) {
  Stats stats;
  std::vector<double> finite;
  for (size_t i = 0; i < bytes.size(); i += size_of(dtype))
    for (int part = 0; part < dtype_info(dtype).values; ++part) {
      const double value = value_of(dtype, &bytes[i], part);
      ++stats.count;
      if (std::isnan(value))
        ++stats.nan;
      else if (std::isinf(value))
        ++(value > 0 ? stats.pos_inf : stats.neg_inf);
      else
        finite.push_back(value);
    }
  if (finite.empty()) return stats;
  for (double value : finite) {
    stats.min = std::fmin(stats.min, value);
    stats.max = std::fmax(stats.max, value);
    stats.max_abs = std::fmax(stats.max_abs, std::fabs(value));
    if (value == 0)
      ++stats.zeros;
    else
      stats.min_abs_nonzero = std::fmin(stats.min_abs_nonzero, std::fabs(value));
    if (value != 0 && std::fabs(value) < smallest_normal(dtype)) ++stats.subnormals;
  }
  int exponent = 0;
  (void)std::frexp(stats.max_abs, &exponent);
  DoubleDouble sum, l1, squares, spread;
  for (double& value : finite) {
    value = std::ldexp(value, -exponent);
    sum += value;
    l1 += std::fabs(value);
    squares += square(value);
  }
  const auto count = static_cast<double>(finite.size());
  const DoubleDouble mean = sum / count;
  for (double value : finite) spread += square(mean - value);
  const bool constant = stats.min == stats.max;
  const bool overflows = std::isinf(std::ldexp(spread.high, 2 * exponent));
  stats.mean = std::ldexp(mean.high, exponent);
  stats.std = constant ? 0 : overflows ? INFINITY : std::ldexp(std::sqrt((spread / count).high), exponent);
  stats.l1 = std::ldexp(l1.high, exponent);
  stats.l2 = !constant && overflows ? INFINITY : std::ldexp(std::sqrt(squares.high), exponent);
  return stats;
}

inline void expect_agreement(const Bytes& bytes, DType dtype, const std::string& what) {
  const Stats expected = reference(bytes, dtype);
  for (SimdPath path : every_path()) {
    EXPECT_TRUE(agrees(stats_of(bytes, dtype, {1, path}), expected))
        << what << ", " << dtype_name(dtype) << ", " << bytes.size() / size_of(dtype) << " elements, "
        << simd_path_name(path);
  }
}

}  // namespace ttap::test
