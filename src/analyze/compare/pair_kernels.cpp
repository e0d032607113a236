#include "analyze/compare/pair_kernels.h"

#include <algorithm>
#include <cmath>

#include "core/element.h"

namespace ttap {
namespace {

void count_ulp(uint64_t distance, const UlpWindow& window, UlpCounts& ulps) {
  if (distance < window.low) ++ulps.below;
  if (distance < window.low || distance > window.high) return;
  ++ulps.bins[(distance - window.low) >> window.shift];
  if (window.shift == 0) return;
  if (ulps.kept.size() < kMostKeptUlps)
    ulps.kept.push_back(distance - window.low);
  else
    ulps.all_kept = false;
}

PairSums compare(const PairPiece& piece, const PairRules& rules, double max_rel, const PositionErrors& positions,
                 UlpCounts& ulps) {
  PairSums sums;
  sums.max_rel = max_rel;
  for (size_t i = 0; i < piece.count; ++i) {
    const double a = piece.a[i];
    const double b = piece.b[i];
    if (!std::isfinite(a) || !std::isfinite(b)) {
      const bool nan = std::isnan(a) || std::isnan(b);
      const bool close = is_close(b, a, rules.tolerance);
      sums.nan_mismatches += nan && !close;
      sums.inf_mismatches += !nan && !close;
      sums.unequal += a != b && !(std::isnan(a) && std::isnan(b));
      sums.outside += !close;
      ++sums.nonfinite;
      if (positions.sq != nullptr) {
        positions.outside[i] += !close;
        ++positions.nonfinite[i];
      }
      continue;
    }
    double distance;
    bool close;
    if (piece.distance != nullptr) {
      distance = piece.distance[i];
      close = distance == 0 || distance <= rules.tolerance.atol + rules.tolerance.rtol * std::fabs(a);
    } else {
      distance = std::fabs(b - a);
      close = is_close(b, a, rules.tolerance);
    }
    sums.unequal += distance != 0;
    sums.outside += !close;
    sums.abs += distance;
    sums.sq += distance * distance;
    sums.aa += a * a;
    sums.bb += b * b;
    sums.ab += a * b;
    sums.max_abs = std::max(sums.max_abs, distance);
    if (a != 0) {
      sums.nonzero_a = true;
      sums.max_rel = std::max(sums.max_rel, distance / std::fabs(a));
    }
    if (positions.sq != nullptr) {
      positions.sq[i] += distance * distance;
      positions.max_abs[i] = std::max(positions.max_abs[i], distance);
      positions.outside[i] += !close;
    }
    if (rules.ulp) {
      const uint64_t steps = ulp_distance(rules.scale, a, b);
      sums.max_ulp = std::max(sums.max_ulp, steps);
      count_ulp(steps, rules.window, ulps);
    }
  }
  return sums;
}

void count_ulps(const PairPiece& piece, const PairRules& rules, UlpCounts& ulps) {
  for (size_t i = 0; i < piece.count; ++i)
    if (std::isfinite(piece.a[i]) && std::isfinite(piece.b[i]))
      count_ulp(ulp_distance(rules.scale, piece.a[i], piece.b[i]), rules.window, ulps);
}

template <DType kDType>
void widen(const std::byte* from, size_t count, double* to) {
  for (size_t i = 0; i < count; ++i) to[i] = value_of(kDType, from + i * (kDType == DType::kF32 ? 4 : 2));
}

template <class T>
void distance(const std::byte* a, const std::byte* b, size_t count, double* to) {
  for (size_t i = 0; i < count; ++i) {
    T x, y;
    std::memcpy(&x, a + i * sizeof x, sizeof x);
    std::memcpy(&y, b + i * sizeof y, sizeof y);
    // Unsigned: the difference of any two is right.
    const uint64_t ux = static_cast<uint64_t>(x);
    const uint64_t uy = static_cast<uint64_t>(y);
    to[i] = static_cast<double>(x < y ? uy - ux : ux - uy);
  }
}

}  // namespace

WordFormat word_format(DType a, DType b) {
  if (a != b) return {};
  switch (a) {
    case DType::kF32:
    case DType::kC64: return {4, 0x7F800000};
    case DType::kBF16: return {2, 0x7F800000};
    case DType::kF16: return {2, 0x7C000000};
    case DType::kF8E4M3FN: return {1, 0x7F000000};
    case DType::kF8E5M2: return {1, 0x7C000000};
    default: return {};
  }
}

const PairKernels& plain_pair_kernels() {
  static constexpr PairKernels kernels = {
      "scalar",          compare,           count_ulps, widen<DType::kF32>, widen<DType::kF16>, widen<DType::kBF16>,
      distance<int64_t>, distance<uint64_t>};
  return kernels;
}

const PairKernels& pair_kernels(SimdPath wanted) {
  const PairKernels* vector = wanted == SimdPath::kScalar ? nullptr : vector_pair_kernels(wanted);
  return vector != nullptr ? *vector : plain_pair_kernels();
}

}  // namespace ttap
