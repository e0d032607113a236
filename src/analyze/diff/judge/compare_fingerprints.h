#pragma once

#include "analyze/diff/result/verdict.h"
#include "analyze/diff/sides/side.h"
#include "ttap/record.h"

namespace ttap {

// A value this large is rarely data: masks are filled with −1e4, −1e9 or the lowest number there is.
inline constexpr double kSentinel = 9999;

// Whether two tensors hold the same values in another order, or with other signs, as far as sums over all tell.
bool has_same_values(const Stats& a, const Stats& b);

// Two tensors of which at least one has no bytes, whose hashes do not tell that they are the same. The statistics give
// the least error there can be: when that is out of tolerance the pair has diverged, and so have integers of which the
// bits differ. Else sketches, where both have one of the same layout, give an estimate of the error as a whole, in
// `measures` rmse: the pair has diverged where even the lower end of its spread is out of tolerance. Without sketches
// it is inconclusive, but for masks in two dtypes that mask as many values; `like_rounding` when the statistics differ
// a little, as rounding would make them, and not when they agree to the last digit (rows swapped, signs turned).
// `measures` then holds the least values: max_abs, mean_abs, rmse, and the counts of NaN and infinity that cannot
// match.
void compare_fingerprints(const Tolerances& tolerances, const TensorRecord& a, const TensorRecord& b, DType judged_by,
                          TensorDiff& tensor);

// The largest relative error that the estimate of a pair may stand for; where it was measured, that.
double most_relative_error(const Side& a, const Side& b, const TensorDiff& tensor);

}  // namespace ttap
