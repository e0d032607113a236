#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "analyze/values/number.h"
#include "ttap/compare.h"
#include "ttap/tensor_view.h"

// How far two tensors are apart (docs/measures.md says what each number means and when to look at it).
namespace ttap {

// The error along one axis: entry i is over all elements whose index on this axis lies in [i · width, (i + 1) · width).
struct AxisError {
  uint32_t axis = 0;
  uint64_t width = 1;                  // more than 1 where the axis has more than kMostAxisEntries indices
  std::vector<double> max_abs = {};    // over finite pairs
  std::vector<double> mean_sq = {};    // mean squared error over finite pairs; 0 for an entry without any
  std::vector<uint64_t> outside = {};  // elements out of tolerance, mismatches of NaN and infinity among them
};
inline constexpr uint64_t kMostAxisEntries = 4096;

// The pair to look at first: a mismatch of NaN or infinity, otherwise the largest |b − a|; of equals the first in C
// order.
struct WorstPair {
  uint64_t element = 0;  // in C order
  uint8_t part = 0;      // of a complex or packed f4 element
  Number a = 0.0;
  Number b = 0.0;
};

// Over the pairs of values of two tensors of the same shape; a complex and a packed f4 element are two values. A is the
// reference. What is not a count is over the pairs whose two values are finite, in double, and NaN when there is none.
struct Measures {
  uint64_t count = 0;           // pairs
  uint64_t finite = 0;          // pairs of finite values
  uint64_t unequal = 0;         // pairs of different values: −0 equals 0, NaN equals NaN
  uint64_t outside = 0;         // pairs that is_close() tells apart
  uint64_t nan_mismatches = 0;  // one of them is NaN, or both are and the tolerance does not let NaN equal NaN
  uint64_t inf_mismatches = 0;  // no NaN; one is infinite and the other is not that infinity
  double max_abs = std::numeric_limits<double>::quiet_NaN();  // |b − a|; of integers exact until made a double
  double mean_abs = std::numeric_limits<double>::quiet_NaN();
  double max_rel = std::numeric_limits<double>::quiet_NaN();  // |b − a| / |a| where a is not 0; NaN when every a is 0
  double rmse = std::numeric_limits<double>::quiet_NaN();
  double cosine = std::numeric_limits<double>::quiet_NaN();   // 1 when both are all zero, 0 when one is
  double sqnr_db = std::numeric_limits<double>::quiet_NaN();  // 10 log10(Σa² / Σ(b − a)²); +inf when b equals a
  double rms_a = std::numeric_limits<double>::quiet_NaN();
  double rms_b = std::numeric_limits<double>::quiet_NaN();
  // Steps of the coarser dtype between the two values, both rounded to it; where both are floats of any kind.
  std::optional<uint64_t> max_ulp = {};
  std::optional<uint64_t> p99_ulp = {};  // the smallest distance that at least 99 % of the finite pairs do not exceed
  std::optional<WorstPair> worst = {};   // nothing when no pair is unequal or mismatched
  std::vector<AxisError> axes = {};      // one per dimension; empty when not asked for
};

struct MeasureOptions {
  Tolerance tolerance = {};
  bool axes = true;
  unsigned threads = 1;  // 0: one per core. The result does not depend on it.
};

// Both views must pass validate() and have the same shape; dtypes may differ: values are widened exactly.
Measures measure(const TensorView& a, const TensorView& b, const MeasureOptions& options = {});

// The dtype with fewer significant bits (of equals: with the smaller range); integers count as finer than any float.
DType coarser(DType a, DType b);

}  // namespace ttap
