#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "analyze/diff/blame/compared_side.h"
#include "analyze/ops/summed.h"

namespace ttap {

// How far apart rounding alone can bring two runs of a call of an operator. What is left where large terms cancel may
// be nothing but rounding: the gradient of a bias before a batch norm.
class Rounding {
 public:
  // `tensors` as align() orders them; all must outlive it.
  Rounding(const Side& a, const Side& b, std::span<const TensorDiff> tensors);

  // The root mean square of the error that rounding explains in the tensor at `position`: that of a sum, beside its
  // terms; and as much as what came in may be rounding itself (TensorDiff::rounding), which must have been settled
  // before. NaN where nothing can be said: no operator is known on either side, or an argument differs.
  double floor_of(uint32_t position) const;
  // The same where all that came in has the same bits: what adding up the terms explains by itself. 0 for no sum.
  double own_floor_of(uint32_t position) const;
  // How many times smaller a value is than terms of its size and any sign come to, at least 1: what its terms are off
  // by is as many times larger beside it. 1 where it is no sum.
  double cancellation_of(uint32_t position) const;

 private:
  struct Call;
  struct Shares : ComparedSide {
    using ComparedSide::ComparedSide;
    mutable std::unordered_map<uint32_t, double> shares = {};  // of what only this side has
  };
  std::optional<Call> call_of(const Shares& of, uint32_t record) const;
  // Of the calls that made the two.
  double largest_of(uint32_t position, double least, double (Call::*what)() const) const;
  double floor_in(const Shares& of, uint32_t record, uint32_t at, int depth) const;
  double share_of(const Shares& of, uint32_t record, uint32_t at, int depth) const;
  bool is_paired(uint32_t position) const;
  double mean_error(const Shares& of, uint32_t record) const;
  bool is_measured_error(const Shares& of, uint32_t record) const;

  std::span<const TensorDiff> tensors_;
  Shares a_, b_;
};

// What of the relative error is in proportion to the values, as of a factor; 0 where it is not known.
double error_in_proportion(const TensorDiff& tensor);
// Whether an error that was measured, or by the statistics is at least as large, is no more than `floor`. One in
// proportion to the values is not, unless what came in has one, too.
bool is_below(double floor, const TensorDiff& tensor, double came_in_proportion = 0);
// Whether both sides together are no more than that, so the error cannot be more either.
bool is_nothing_but_rounding(double floor, const TensorDiff& tensor);
// Lets it pass, and says what it was held against.
void accept_as_rounding(double floor, TensorDiff& tensor);

}  // namespace ttap
