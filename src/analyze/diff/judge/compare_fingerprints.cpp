#include "analyze/diff/judge/compare_fingerprints.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "analyze/compare/tolerance.h"
#include "analyze/diff/judge/compare_pair.h"
#include "core/element.h"

namespace ttap {
namespace {

double distance(double a, double b) { return std::isfinite(a) && std::isfinite(b) ? std::abs(a - b) : 0; }
uint64_t distance(uint64_t a, uint64_t b) { return a < b ? b - a : a - b; }

// Sums over the same values in another order, or with other signs, agree to this; rounding moves them further.
constexpr double kSameValues = 1e-13;

// How far an estimate may be off, in its standard deviations.
constexpr double kSpreads = 3;
// Of the size of a value, by which a step moves it on average: from 1 to the next power of two, it is half to all of
// it.
constexpr double kOfStep = 0.7;

// Sketches of as many values, each of which has the same place in both.
bool have_like_sketches(const TensorRecord& a, const TensorRecord& b) {
  return a.fingerprint.has_sketch && b.fingerprint.has_sketch && dtype_info(a.dtype).kind == dtype_info(b.dtype).kind &&
         a.group.empty() && b.group.empty() && a.fingerprint.stats.count == b.fingerprint.stats.count &&
         std::isfinite(sketched_distance(a.fingerprint.sketch, b.fingerprint.sketch));
}

// By the error as a whole, which is all that sketches tell.
void judge_by_sketches(const TensorRecord& a, const TensorRecord& b, TensorDiff& tensor) {
  const Sketch &x = a.fingerprint.sketch, &y = b.fingerprint.sketch;
  Measures& found = *tensor.measures;
  const double n = static_cast<double>(std::max<uint64_t>(found.finite, 1));
  const double off = kSpreads * sketch_spread(x, y);
  // No less than what the statistics prove.
  found.rmse = std::max(sketched_distance(x, y) / std::sqrt(n), found.rmse);
  found.max_abs = std::max(found.max_abs, found.rmse);
  const double steps = found.rmse / (kOfStep * epsilon_of(coarser(dtype_of(a), dtype_of(b))) * found.rms_a);
  found.unequal = std::max<uint64_t>(static_cast<uint64_t>(std::min(steps * steps, 1.0) * n), 1);
  const double most = tensor.judge->most_relative * found.rms_a;
  tensor.evidence = Evidence::kSketch;
  tensor.verdict = found.rmse * (1 - off) > most ? Verdict::kDiverged : Verdict::kWithin;
  if (tensor.verdict == Verdict::kWithin && found.rmse * (1 + off) > most)
    tensor.note +=
        fmt::format("{}its error is {:.2g} of its size, give or take {:.0f} %, and {:.2g} is allowed",
                    tensor.note.empty() ? "" : "; ", found.rmse / found.rms_a, 100 * off, tensor.judge->most_relative);
}

// Zeros, and one number or infinity that stands for "masked".
bool is_mask_alone(const Stats& stats) {
  if (stats.nan > 0 || stats.pos_inf > 0 || !(stats.max <= 0 || stats.max == stats.min)) return false;
  const auto masked = static_cast<double>(stats.finite() - stats.zeros);
  const double sum = stats.neg_inf > 0 ? 0 : masked * std::abs(stats.min);
  return std::abs(stats.l1 - sum) <= 1e-6 * sum;
}

bool is_compared_exactly(DType dtype) {
  const DTypeKind kind = dtype_info(dtype).kind;
  return kind != DTypeKind::kFloat && kind != DTypeKind::kComplex;
}

}  // namespace

bool has_same_values(const Stats& a, const Stats& b) {
  return distance(a.l1, b.l1) <= kSameValues * a.l1 && distance(a.l2, b.l2) <= kSameValues * a.l2;
}

void compare_fingerprints(const Tolerances& tolerances, const TensorRecord& a, const TensorRecord& b, DType judged_by,
                          TensorDiff& tensor) {
  tensor.verdict = Verdict::kInconclusive;
  if (!a.has_fingerprint || !b.has_fingerprint) {
    const char* side = !a.has_fingerprint && !b.has_fingerprint ? "both sides" : !a.has_fingerprint ? "A" : "B";
    tensor.reason = std::string("only metadata was kept in ") + side + ": record at level fingerprint or full";
    return;
  }
  const DType dtype_a = a.true_dtype.value_or(a.dtype), dtype_b = b.true_dtype.value_or(b.dtype);
  const Stats &x = a.fingerprint.stats, &y = b.fingerprint.stats;
  const double n = static_cast<double>(std::max<uint64_t>(x.finite(), 1));
  tensor.evidence = dtype_a == dtype_b ? Evidence::kHash : Evidence::kStatistics;
  const auto quant = quant_tolerance_of(a, b, &x, &y);
  tensor.judge = std::make_unique<Judge>(
      tolerances.judge(to_string(a.key()), judged_by, x.l2 / std::sqrt(n), nullptr, quant ? &*quant : nullptr));
  const Tolerance& tolerance = tensor.judge->tolerance;

  tensor.measures = std::make_unique<Measures>();
  Measures& least = *tensor.measures;
  least.count = x.count;
  least.finite = std::min(x.finite(), y.finite());
  least.nan_mismatches = distance(x.nan, y.nan);
  least.inf_mismatches = std::max(distance(x.pos_inf, y.pos_inf), distance(x.neg_inf, y.neg_inf));
  least.max_abs = std::max(distance(x.min, y.min), distance(x.max, y.max));
  least.mean_abs = distance(x.mean, y.mean);
  least.rmse = std::max({distance(x.l2, y.l2) / std::sqrt(n), distance(x.l1, y.l1) / n, least.mean_abs});
  least.max_abs = std::max(least.max_abs, least.rmse);
  least.rms_a = x.l2 / std::sqrt(n);
  least.rms_b = y.l2 / std::sqrt(static_cast<double>(std::max<uint64_t>(y.finite(), 1)));

  // Beside a mask the sums tell nothing, and it may be written with another number.
  const bool masked = (x.neg_inf > 0 || is_masked(x.min)) && (y.neg_inf > 0 || is_masked(y.min));
  if (masked) {
    least.inf_mismatches = distance(x.pos_inf, y.pos_inf);
    least.max_abs = is_masked(x.max) && is_masked(y.max) ? 0 : distance(x.max, y.max);
    least.mean_abs = least.rmse = 0;
  }
  // What elements within tolerance could differ by at most, each by its own sum; beyond it one of them must be outside.
  const bool same_counts = least.nan_mismatches == 0 && least.inf_mismatches == 0;
  const double slack = 1 + 1e-12;
  const bool outside =
      least.max_abs > slack * (tolerance.atol + tolerance.rtol * x.max_abs) ||
      least.mean_abs > slack * (tolerance.atol + tolerance.rtol * x.l1 / n) ||
      (!masked && distance(x.l2, y.l2) > slack * (tolerance.atol * std::sqrt(n) + tolerance.rtol * x.l2));
  const bool too_much = least.rmse > slack * tensor.judge->most_relative * least.rms_a && x.max_abs < kSentinel;
  const bool is_proven = !same_counts || outside || too_much;
  if (tensor.judge->predicate) {
    tensor.reason = "the bits differ; there are no bytes to judge by";
  } else if (!masked && have_like_sketches(a, b)) {
    judge_by_sketches(a, b, tensor);
    if (is_proven) tensor.verdict = Verdict::kDiverged;
  } else if (is_proven) {
    tensor.verdict = Verdict::kDiverged;
    tensor.evidence = Evidence::kStatistics;
  } else if (dtype_a == dtype_b && is_compared_exactly(dtype_a)) {
    tensor.verdict = Verdict::kDiverged;
    tensor.reason = "the bits differ, and no bytes were kept to tell where";
  } else if (!masked && dtype_a == dtype_b && has_same_values(x, y)) {
    tensor.reason =
        "the bits differ and the statistics do not: the same values in another order, or with other signs? There are "
        "no bytes to tell";
  } else if (masked && dtype_a != dtype_b && x.count == y.count && x.zeros == y.zeros && is_mask_alone(x) &&
             is_mask_alone(y)) {
    tensor.verdict = Verdict::kWithin;
    tensor.note = "a mask in two dtypes: as many values are masked; without bytes there is no telling which";
  } else {
    tensor.like_rounding = true;
    tensor.reason = dtype_a == dtype_b
                        ? "the bits differ; the statistics agree within tolerance, and there are no bytes to tell more"
                        : "other dtypes and no bytes: the statistics agree, which proves nothing";
  }
}

double most_relative_error(const Side& a, const Side& b, const TensorDiff& tensor) {
  const double error = relative_error(tensor);
  if (tensor.evidence != Evidence::kSketch) return error;
  const TensorRecord of_a = a.tensor(tensor.match.a), of_b = b.tensor(tensor.match.b);
  return error * (1 + kSpreads * sketch_spread(of_a.fingerprint.sketch, of_b.fingerprint.sketch));
}

}  // namespace ttap
