#pragma once

#include <nanobind/nanobind.h>

#include "ttap/fingerprint.h"

namespace ttap::python {

inline nanobind::dict stats_as_dict(const Stats& stats) {
  nanobind::dict result;
  result["count"] = stats.count;
  result["nan"] = stats.nan;
  result["pos_inf"] = stats.pos_inf;
  result["neg_inf"] = stats.neg_inf;
  result["zeros"] = stats.zeros;
  result["subnormals"] = stats.subnormals;
  result["min"] = stats.min;
  result["max"] = stats.max;
  result["max_abs"] = stats.max_abs;
  result["min_abs_nonzero"] = stats.min_abs_nonzero;
  result["mean"] = stats.mean;
  result["std"] = stats.std;
  result["l1"] = stats.l1;
  result["l2"] = stats.l2;
  return result;
}

}  // namespace ttap::python
