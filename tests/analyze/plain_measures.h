#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "analyze/compare/measures.h"
#include "analyze/compare/ulp.h"
#include "core/logical_copy.h"

// The measures one pair after the other, as their definitions read: what the fast ones are held against.
namespace ttap::test {

inline bool is_float(DType dtype) {
  return dtype_info(dtype).kind == DTypeKind::kFloat || dtype_info(dtype).kind == DTypeKind::kComplex;
}

// |b − a| in double, exact until then.
inline double plain_distance(const Number& a, const Number& b) {
  if (std::holds_alternative<double>(a) && std::holds_alternative<double>(b))
    return std::fabs(std::get<double>(b) - std::get<double>(a));
  if (!std::holds_alternative<double>(a) && !std::holds_alternative<double>(b)) {
    const auto wide = [](const Number& n) {
      return std::holds_alternative<int64_t>(n) ? static_cast<__int128>(std::get<int64_t>(n))
                                                : static_cast<__int128>(std::get<uint64_t>(n));
    };
    const __int128 difference = wide(b) - wide(a);
    return static_cast<double>(difference < 0 ? -difference : difference);
  }
  // The integer's distance from the next whole number toward zero, and what is left; no long double, which is not the
  // same everywhere.
  const double x = std::get<double>(std::holds_alternative<double>(a) ? a : b);
  const Number& n = std::holds_alternative<double>(a) ? b : a;
  const auto integer = [&](auto from) { return std::visit([&](auto v) { return static_cast<decltype(from)>(v); }, n); };
  if (!(std::fabs(x) < 0x1p64)) return std::fabs(x - integer(0.0));
  const auto apart = integer(static_cast<__int128>(0)) - static_cast<__int128>(x);
  return std::fabs(static_cast<double>(apart) - (x - std::trunc(x)));
}

inline Measures plain_measures(const TensorView& a, const TensorView& b, const MeasureOptions& options) {
  const bool floats = is_float(a.dtype) && is_float(b.dtype);
  const bool integers = !is_float(a.dtype) && !is_float(b.dtype);
  const UlpScale scale = floats ? ulp_scale(coarser(a.dtype, b.dtype)) : UlpScale{};
  const Tolerance tolerance = integers ? Tolerance{} : options.tolerance;
  const int parts = std::max(dtype_info(a.dtype).values, dtype_info(b.dtype).values);
  const LogicalCopy copy_a(a);
  const LogicalCopy copy_b(b);
  Measures m;
  std::vector<uint64_t> finite_per_entry[kMaxDims];
  if (options.axes) {
    for (uint32_t axis = 0; axis < a.ndim(); ++axis) {
      const auto length = static_cast<uint64_t>(a.shape[axis]);
      AxisError error{.axis = axis, .width = std::max<uint64_t>(1, (length + kMostAxisEntries - 1) / kMostAxisEntries)};
      const uint64_t entries = (length + error.width - 1) / error.width;
      error.max_abs.resize(entries);
      error.mean_sq.resize(entries);
      error.outside.resize(entries);
      finite_per_entry[axis].resize(entries);
      m.axes.push_back(std::move(error));
    }
  }
  double sum_abs = 0, sum_sq = 0, sum_aa = 0, sum_bb = 0, sum_ab = 0;
  double worst = 0;
  bool worst_mismatch = false;
  std::vector<uint64_t> ulps;
  for (uint64_t element = 0; element < copy_a.elements(); ++element) {
    std::array<std::byte, 16> bytes_a, bytes_b;
    copy_a.copy(element, 1, bytes_a.data());
    copy_b.copy(element, 1, bytes_b.data());
    const auto index = index_of(element, a.shape);
    for (int part = 0; part < parts; ++part) {
      const Number na = part < dtype_info(a.dtype).values ? number_at(a.dtype, bytes_a.data(), part) : Number(0.0);
      const Number nb = part < dtype_info(b.dtype).values ? number_at(b.dtype, bytes_b.data(), part) : Number(0.0);
      const double x = to_double(na);
      const double y = to_double(nb);
      const double d = plain_distance(na, nb);
      const bool finite = is_finite(na) && is_finite(nb);
      const bool nan_mismatch = std::isnan(x) != std::isnan(y) || (std::isnan(x) && !tolerance.equal_nan);
      const bool inf_mismatch = !finite && !std::isnan(x) && !std::isnan(y) && x != y;
      const bool close = finite ? d <= tolerance.atol + tolerance.rtol * std::fabs(x) : is_close(y, x, tolerance);
      ++m.count;
      m.nan_mismatches += nan_mismatch;
      m.inf_mismatches += inf_mismatch;
      m.unequal += finite ? d != 0 : (x != y && !(std::isnan(x) && std::isnan(y)));
      m.outside += !close;
      const bool mismatch = nan_mismatch || inf_mismatch;
      if (!worst_mismatch && (mismatch || (finite && d > worst))) {
        m.worst = WorstPair{element, static_cast<uint8_t>(part), na, nb};
        worst_mismatch = mismatch;
        worst = d;
      }
      for (AxisError& axis : m.axes) {
        const uint64_t entry = static_cast<uint64_t>(index[axis.axis]) / axis.width;
        axis.outside[entry] += !close;
        if (!finite) continue;
        axis.max_abs[entry] = std::max(axis.max_abs[entry], d);
        axis.mean_sq[entry] += d * d;
        ++finite_per_entry[axis.axis][entry];
      }
      if (!finite) continue;
      m.max_abs = m.finite == 0 ? d : std::max(m.max_abs, d);
      if (x != 0) m.max_rel = std::isnan(m.max_rel) ? d / std::fabs(x) : std::max(m.max_rel, d / std::fabs(x));
      ++m.finite;
      sum_abs += d;
      sum_sq += d * d;
      sum_aa += x * x;
      sum_bb += y * y;
      sum_ab += x * y;
      if (floats) ulps.push_back(ulp_distance(scale, x, y));
    }
  }
  for (AxisError& axis : m.axes)
    for (size_t i = 0; i < axis.mean_sq.size(); ++i)
      if (const uint64_t n = finite_per_entry[axis.axis][i]; n != 0) axis.mean_sq[i] /= static_cast<double>(n);
  if (m.finite == 0) return m;
  const auto n = static_cast<double>(m.finite);
  m.mean_abs = sum_abs / n;
  m.rmse = std::sqrt(sum_sq / n);
  m.rms_a = std::sqrt(sum_aa / n);
  m.rms_b = std::sqrt(sum_bb / n);
  m.sqnr_db = sum_sq == 0 ? std::numeric_limits<double>::infinity() : 10 * std::log10(sum_aa / sum_sq);
  if (sum_aa == 0 || sum_bb == 0) {
    m.cosine = sum_aa == sum_bb ? 1 : 0;
  } else {
    // The square root of a square need not be the number itself.
    m.cosine = std::clamp(sum_ab / (sum_aa == sum_bb ? sum_aa : std::sqrt(sum_aa) * std::sqrt(sum_bb)), -1.0, 1.0);
  }
  if (floats) {
    const uint64_t rank = m.finite - m.finite / 100;  // ⌈0.99 · finite⌉
    std::ranges::nth_element(ulps, ulps.begin() + static_cast<std::ptrdiff_t>(rank - 1));
    m.p99_ulp = ulps[rank - 1];
    m.max_ulp = *std::ranges::max_element(ulps);
  }
  return m;
}

}  // namespace ttap::test
