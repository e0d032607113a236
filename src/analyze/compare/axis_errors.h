#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "analyze/compare/measures.h"
#include "analyze/compare/pair_kernels.h"

// The error along every axis, taken while the pairs go by in C order.
namespace ttap {

// How a tensor of any shape is walked. Its innermost axes together are a *block*, small enough that the error of every
// position in it can be kept; what the axes inside say is summed up from the positions at the end. The axes outside get
// the sums of whole pieces. Several blocks in a row make a *run*, so that tiny blocks do not mean tiny pieces.
class AxisPlan {
 public:
  // `parts` values to an element. Without axes everything is one run after the other.
  AxisPlan(std::span<const int64_t> shape, uint64_t parts, bool axes);

  uint64_t block() const { return block_; }
  uint64_t blocks() const { return blocks_; }

 private:
  friend class AxisErrors;
  struct Axis {
    uint32_t axis;
    uint64_t length;
    uint64_t width;
    uint64_t entries;
    uint64_t stride;  // inner: in values; outer: in blocks
    bool inner;
  };
  std::vector<Axis> axes_;     // of the tensor, in order
  std::vector<size_t> outer_;  // places in axes_ of those outside that are longer than 1, the innermost first
  uint64_t block_ = 1;
  uint64_t blocks_ = 0;
  uint64_t run_blocks_ = 1;     // most blocks of a run
  bool has_inner_ = false;      // an axis inside a block is longer than 1
  bool by_position_ = false;    // the error of every position of a run is kept
  bool fold_each_run_ = false;  // blocks of a run belong to different entries of the innermost axis outside
};

class AxisErrors {
 public:
  explicit AxisErrors(const AxisPlan& plan);

  void clear();

  // The blocks [first, first + count) in order: visit(first value, values, positions) for each piece, which returns its
  // PairSums.
  template <class Visit>
  void walk(uint64_t first, uint64_t count, Visit&& visit);

  // What another one found in later blocks.
  void merge(const AxisErrors& later);

  std::vector<AxisError> finish(const PairSums& all) const;

 private:
  struct Errors {
    std::vector<double> sq, max_abs;
    std::vector<uint64_t> outside, nonfinite;
    void resize(size_t size);
    void clear();
    // Some neighbouring ones.
    struct Range {
      const double* sq;
      const double* max_abs;
      const uint64_t* outside;
      const uint64_t* nonfinite;
      size_t count;
    };
    Range range(size_t first, size_t count) const;
    void add(const Range& from, bool counts_too);                 // one by one, from the first on
    void add_sum(size_t to, const Range& from, bool counts_too);  // all to one
    PositionErrors at(size_t position);
  };
  uint64_t run_length(uint64_t block, uint64_t end) const;
  void add_outside(uint64_t block, const PairSums& sums);
  void fold(uint64_t block, uint64_t blocks, bool counts_too);

  const AxisPlan* plan_;
  std::vector<Errors> outer_;  // as plan.outer_
  Errors run_;                 // positions of a run
  Errors inner_;               // positions of a block
};

template <class Visit>
void AxisErrors::walk(uint64_t first, uint64_t count, Visit&& visit) {
  const uint64_t end = first + count;
  for (uint64_t block = first; block < end;) {
    const uint64_t blocks = run_length(block, end);
    const uint64_t values = blocks * plan_->block_;
    bool any_unequal = false;
    bool any_counted = false;
    for (uint64_t at = 0; at < values; at += kPieceValues) {
      const size_t piece = static_cast<size_t>(std::min<uint64_t>(kPieceValues, values - at));
      const PairSums sums =
          visit(block * plan_->block_ + at, piece, plan_->by_position_ ? run_.at(at) : PositionErrors{});
      add_outside(block, sums);
      any_unequal = any_unequal || sums.unequal != 0 || sums.nonfinite != 0;
      any_counted = any_counted || sums.outside != 0 || sums.nonfinite != 0;
    }
    // What is zero need not be added.
    if (plan_->fold_each_run_ && any_unequal) fold(block, blocks, any_counted);
    block += blocks;
  }
  if (plan_->by_position_ && !plan_->fold_each_run_) fold(first, plan_->run_blocks_, true);
}

}  // namespace ttap
