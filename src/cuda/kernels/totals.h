#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "cuda/kernels/lanes/huge_sum.h"
#include "fingerprint/stats_part.h"

// What is left of a tensor when everything is added up. The GPU adds, which it does in no time; the mean and the spread
// are worked out by the host.
namespace ttap::cuda {

// In the order of the columns that blocks write (kernels/columns.cuh). Sums are of distances from a centre, and
// of huge ones in units (kernels/huge_sum.h).
struct Totals {
  DoubleSum sum = {};
  DoubleSum squares = {};
  double l1 = 0;
  double min = 0;
  double minus_max = 0;
  double min_abs_nonzero = 0;
  uint64_t digest_a = 0;
  uint64_t digest_b = 0;
  uint64_t nan = 0, pos_inf = 0, neg_inf = 0, subnormals = 0, zeros = 0, finite = 0;
};
static_assert(sizeof(Totals) == 16 * sizeof(uint64_t));

inline StatsPart to_part(const Totals& totals, double centre) {
  StatsPart part;
  part.nan = totals.nan;
  part.pos_inf = totals.pos_inf;
  part.neg_inf = totals.neg_inf;
  part.zeros = totals.zeros;
  part.subnormals = totals.subnormals;
  part.finite = totals.finite;
  part.min = totals.min;
  part.max = -totals.minus_max;
  part.min_abs_nonzero = totals.min_abs_nonzero;
  part.l1 = totals.l1;
  if (totals.finite == 0) return part;
  const double count = static_cast<double>(totals.finite);
  const double one_of = 1 / count;
  const auto mean_of = [&](const DoubleSum& sum) {
    const double mean = rounded_product(sum.high, one_of);
    return DoubleSum{mean, (std::fma(-mean, count, sum.high) + sum.rest) * one_of};
  };
  const auto spread_of = [&](const DoubleSum& sum, const DoubleSum& squares) {
    const DoubleSum spread = squares + -(sum * mean_of(sum));
    const double m2 = spread.high + spread.rest;
    return m2 < 0 ? 0 : m2;
  };
  part.m2 = is_in_units(totals.squares)
                ? spread_of(scaled(in_units(totals.sum), kHugeUnitRoot), in_units(totals.squares)) * kHugeUnit
                : spread_of(totals.sum, totals.squares);
  if (is_in_units(totals.sum)) {
    constexpr double kMost = std::numeric_limits<double>::max();
    part.mean = std::clamp(totals.sum.high * one_of * kHugeUnit + centre, -kMost, kMost);
    return part;
  }
  const DoubleSum mean = mean_of(totals.sum);
  const DoubleSum there = exact_sum(centre, mean.high);
  set_mean(part, there.high, there.rest + mean.rest);
  return part;
}

}  // namespace ttap::cuda
