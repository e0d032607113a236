#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "core/element.h"
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

// Two passes in long double, as in a textbook.
inline Stats reference(const Bytes& bytes, DType dtype) {
  Stats stats;
  std::vector<double> finite;
  for (size_t i = 0; i < bytes.size(); i += size_of(dtype))
    for (int part = 0; part < info(dtype).values; ++part) {
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
  long double sum = 0, l1 = 0, squares = 0, spread = 0;
  for (double value : finite) {
    stats.min = std::fmin(stats.min, value);
    stats.max = std::fmax(stats.max, value);
    stats.max_abs = std::fmax(stats.max_abs, std::fabs(value));
    if (value == 0)
      ++stats.zeros;
    else
      stats.min_abs_nonzero = std::fmin(stats.min_abs_nonzero, std::fabs(value));
    if (value != 0 && std::fabs(value) < smallest_normal(dtype)) ++stats.subnormals;
    sum += value;
    l1 += std::fabs(value);
    squares += static_cast<long double>(value) * value;
  }
  const auto count = static_cast<long double>(finite.size());
  const long double mean = sum / count;
  for (double value : finite) spread += (value - mean) * (value - mean);
  stats.mean = static_cast<double>(mean);
  stats.std = stats.min == stats.max ? 0 : static_cast<double>(std::sqrt(spread / count));
  stats.l1 = static_cast<double>(l1);
  stats.l2 = static_cast<double>(std::sqrt(squares));
  if (stats.std != 0 && spread > std::numeric_limits<double>::max()) stats.std = stats.l2 = INFINITY;
  return stats;
}

inline void expect_agreement(const Bytes& bytes, DType dtype, const std::string& what) {
  const Stats expected = reference(bytes, dtype);
  for (SimdPath path : every_path()) {
    EXPECT_TRUE(agrees(stats_of(bytes, dtype, {1, path}), expected))
        << what << ", " << name(dtype) << ", " << bytes.size() / size_of(dtype) << " elements, "
        << simd_path_name(path);
  }
}

}  // namespace ttap::test
