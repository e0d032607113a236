#pragma once

#include <cmath>
#include <cstdint>

#include "cuda/kernels/double_sum.h"
#include "fingerprint/stats_part.h"

// What is left of a tensor when everything is added up. The GPU adds, which it does in no time; the mean and the spread
// are worked out by the host.
namespace ttap::cuda {

// In the order of the columns that blocks write (kernels/columns.cuh). Sums are of distances from a centre.
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
  DoubleSum mean;  // of the distances
  mean.high = rounded_product(totals.sum.high, one_of);
  mean.rest = (std::fma(-mean.high, count, totals.sum.high) + totals.sum.rest) * one_of;
  const DoubleSum spread = totals.squares + -(totals.sum * mean);
  part.m2 = spread.high + spread.rest;
  if (part.m2 < 0) part.m2 = 0;
  const DoubleSum there = exact_sum(centre, mean.high);
  set_mean(part, there.high, there.rest + mean.rest);
  return part;
}

}  // namespace ttap::cuda
