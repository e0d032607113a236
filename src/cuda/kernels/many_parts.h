#pragma once

#include "fingerprint/stats_part.h"

// Chan's formula for many parts at once, as a warp does it: one sum over the lanes for the common mean, one for the
// spread around it. No part waits for another, and there is one division where merging in turn has one each.
namespace ttap::cuda {

// What a part adds to the common mean. The share comes first: the sum of a part may be beyond double.
TTAP_HD inline double share_of_mean(const StatsPart& part, double all) {
  return part.finite == 0 ? 0 : part.mean * (static_cast<double>(part.finite) / all);
}

struct Spread {
  double distance = 0;  // the sum of the distances of the values from the common mean: what rounding left of it
  double m2 = 0;
};

TTAP_HD inline Spread spread_around(const StatsPart& part, double mean) {
  if (part.finite == 0) return {};
  const double delta = (part.mean - mean) + part.mean_rest;
  const double distance = delta * static_cast<double>(part.finite);
  return {distance, part.m2 + distance * delta};
}

// `total` are the sums over all parts.
TTAP_HD inline void set_spread(StatsPart& part, double mean, const Spread& total, double all) {
  set_mean(part, mean, total.distance / all);
  part.m2 = total.m2 - total.distance * total.distance / all;
  if (part.m2 < 0) part.m2 = 0;
}

}  // namespace ttap::cuda
