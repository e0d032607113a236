#include "analyze/diff/match/ops/value_likeness.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "analyze/compare/tolerance.h"
#include "analyze/diff/sides/side.h"

namespace ttap {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();
// Times what the dtype lets an error be as a whole.
constexpr double kNear = 50;
constexpr double kMostNear = 0.1;
// Sums over the same values in another order agree to this.
constexpr double kSameSum = 1e-13;

double apart(double x, double y, double size) {
  if (x == y) return 0;
  const double difference = std::abs(x - y) / size;
  return std::isfinite(difference) ? difference : kUnlimited;
}

// The most that an error may be as a whole.
double rounding_of(const TensorRecord& a, const TensorRecord& b) {
  return std::max(default_tolerance(dtype_of(a)).relative, default_tolerance(dtype_of(b)).relative);
}

}  // namespace

double distance_of(const TensorRecord& a, const TensorRecord& b) {
  if (!a.has_fingerprint || !b.has_fingerprint) return kUnlimited;
  const Stats &x = a.fingerprint.stats, &y = b.fingerprint.stats;
  if (x.count != y.count || x.nan != y.nan || x.pos_inf != y.pos_inf || x.neg_inf != y.neg_inf) return kUnlimited;
  const double largest = std::max(x.max_abs, y.max_abs);
  return std::max({apart(x.l1, y.l1, std::max(x.l1, y.l1)), apart(x.l2, y.l2, std::max(x.l2, y.l2)),
                   apart(x.min, y.min, largest), apart(x.max, y.max, largest), apart(x.mean, y.mean, largest)});
}

bool is_near(const TensorRecord& a, const TensorRecord& b) {
  return !is_reordered(a, b) && distance_of(a, b) <= std::min(kNear * rounding_of(a, b), kMostNear);
}

bool is_rounded(const TensorRecord& a, const TensorRecord& b) {
  return !is_reordered(a, b) && distance_of(a, b) <= rounding_of(a, b);
}

bool is_laid_out_alike(const TensorRecord& a, const TensorRecord& b) {
  return std::ranges::equal(a.strides, b.strides);
}

bool is_reordered(const TensorRecord& a, const TensorRecord& b) {
  if (!a.has_fingerprint || !b.has_fingerprint || a.fingerprint.hash == b.fingerprint.hash) return false;
  if (dtype_of(a) != dtype_of(b)) return false;
  const Stats &x = a.fingerprint.stats, &y = b.fingerprint.stats;
  return x.count == y.count && x.zeros == y.zeros && x.min == y.min && x.max == y.max &&
         x.min_abs_nonzero == y.min_abs_nonzero && apart(x.l1, y.l1, x.l1) <= kSameSum &&
         apart(x.l2, y.l2, x.l2) <= kSameSum;
}

}  // namespace ttap
