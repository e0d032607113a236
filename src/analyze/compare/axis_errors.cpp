#include "analyze/compare/axis_errors.h"

#include <algorithm>
#include <numeric>

namespace ttap {
namespace {

constexpr uint64_t kMostBlockValues = 16 * 1024;
constexpr uint64_t kRunValues = 2 * kPieceValues;
// A run whose piece of an entry is smaller is rather kept by position.
constexpr uint64_t kLeastRunValues = 64;

}  // namespace

AxisPlan::AxisPlan(std::span<const int64_t> shape, uint64_t parts, bool axes) {
  uint64_t values = parts;
  for (const int64_t length : shape) values *= static_cast<uint64_t>(length);
  block_ = parts;
  if (!axes || values == 0) {
    blocks_ = values / block_;
    run_blocks_ = kPieceValues / block_;
  }
  if (!axes) return;
  bool inner = true;
  uint64_t blocks = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    const auto length = static_cast<uint64_t>(shape[i]);
    inner = inner && (values == 0 || block_ * length <= kMostBlockValues);
    const uint64_t width = std::max<uint64_t>(1, (length + kMostAxisEntries - 1) / kMostAxisEntries);
    axes_.push_back(
        {static_cast<uint32_t>(i), length, width, (length + width - 1) / width, inner ? block_ : blocks, inner});
    if (values == 0) continue;
    if (!inner && length > 1) outer_.push_back(axes_.size() - 1);
    (inner ? block_ : blocks) *= length;
  }
  if (values == 0) return;
  blocks_ = blocks;
  has_inner_ = std::ranges::any_of(axes_, [](const Axis& axis) { return axis.inner && axis.length > 1; });
  by_position_ = has_inner_;
  if (outer_.empty()) return;
  const Axis& split = axes_[outer_.front()];
  const uint64_t most = std::max<uint64_t>(1, kRunValues / block_);
  if (split.width * block_ < kLeastRunValues) {
    by_position_ = fold_each_run_ = true;
    run_blocks_ = most;
  } else {
    run_blocks_ = std::min(split.width, most);
  }
}

void AxisErrors::Errors::resize(size_t size) {
  sq.resize(size);
  max_abs.resize(size);
  outside.resize(size);
  nonfinite.resize(size);
}

void AxisErrors::Errors::clear() {
  std::ranges::fill(sq, 0);
  std::ranges::fill(max_abs, 0);
  std::ranges::fill(outside, 0);
  std::ranges::fill(nonfinite, 0);
}

AxisErrors::Errors::Range AxisErrors::Errors::range(size_t first, size_t count) const {
  return {sq.data() + first, max_abs.data() + first, outside.data() + first, nonfinite.data() + first, count};
}

void AxisErrors::Errors::add(const Range& from, bool counts_too) {
  const auto sum = [&]<class T>(T* to, const T* values) {
    for (size_t i = 0; i < from.count; ++i) to[i] += values[i];
  };
  sum(sq.data(), from.sq);
  double* most = max_abs.data();
  for (size_t i = 0; i < from.count; ++i) most[i] = std::max(most[i], from.max_abs[i]);
  if (!counts_too) return;
  sum(outside.data(), from.outside);
  sum(nonfinite.data(), from.nonfinite);
}

void AxisErrors::Errors::add_sum(size_t to, const Range& from, bool counts_too) {
  double sum = 0;
  double most = 0;
  for (size_t i = 0; i < from.count; ++i) {
    sum += from.sq[i];
    most = std::max(most, from.max_abs[i]);
  }
  sq[to] += sum;
  max_abs[to] = std::max(max_abs[to], most);
  if (!counts_too) return;
  outside[to] = std::accumulate(from.outside, from.outside + from.count, outside[to]);
  nonfinite[to] = std::accumulate(from.nonfinite, from.nonfinite + from.count, nonfinite[to]);
}

PositionErrors AxisErrors::Errors::at(size_t position) {
  return {sq.data() + position, max_abs.data() + position, outside.data() + position, nonfinite.data() + position};
}

AxisErrors::AxisErrors(const AxisPlan& plan) : plan_(&plan), outer_(plan.outer_.size()) {
  for (size_t i = 0; i < outer_.size(); ++i) outer_[i].resize(plan.axes_[plan.outer_[i]].entries);
  if (!plan.by_position_) return;
  run_.resize(plan.run_blocks_ * plan.block_ + kPiecePadding);
  if (plan.has_inner_) inner_.resize(plan.block_);
}

void AxisErrors::clear() {
  for (Errors& errors : outer_) errors.clear();
  run_.clear();
  inner_.clear();
}

uint64_t AxisErrors::run_length(uint64_t block, uint64_t end) const {
  uint64_t length = std::min(end - block, plan_->run_blocks_);
  if (!plan_->outer_.empty()) {
    const AxisPlan::Axis& split = plan_->axes_[plan_->outer_.front()];
    const uint64_t index = block / split.stride % split.length;
    uint64_t left = split.length - index;
    if (!plan_->fold_each_run_) left = std::min(left, split.width - index % split.width);
    length = std::min(length, left);
  }
  return length;
}

void AxisErrors::add_outside(uint64_t block, const PairSums& sums) {
  for (size_t i = plan_->fold_each_run_ ? 1 : 0; i < outer_.size(); ++i) {
    const AxisPlan::Axis& axis = plan_->axes_[plan_->outer_[i]];
    const uint64_t entry = block / axis.stride % axis.length / axis.width;
    Errors& errors = outer_[i];
    errors.sq[entry] += sums.sq;
    errors.max_abs[entry] = std::max(errors.max_abs[entry], sums.max_abs);
    errors.outside[entry] += sums.outside;
    errors.nonfinite[entry] += sums.nonfinite;
  }
}

// The positions of a run become those of a block (and entries of the axis around it), and start again.
void AxisErrors::fold(uint64_t block, uint64_t blocks, bool counts_too) {
  const uint64_t length = plan_->block_;
  for (uint64_t i = 0; i < blocks; ++i) {
    const Errors::Range from = run_.range(i * length, length);
    if (plan_->fold_each_run_) {
      const AxisPlan::Axis& split = plan_->axes_[plan_->outer_.front()];
      const uint64_t entry = (block + i) / split.stride % split.length / split.width;
      outer_.front().add_sum(entry, from, counts_too);
    }
    if (plan_->has_inner_) inner_.add(from, counts_too);
  }
  std::fill_n(run_.sq.begin(), blocks * length, 0);
  std::fill_n(run_.max_abs.begin(), blocks * length, 0);
  if (!counts_too) return;
  std::fill_n(run_.outside.begin(), blocks * length, 0);
  std::fill_n(run_.nonfinite.begin(), blocks * length, 0);
}

void AxisErrors::merge(const AxisErrors& later) {
  for (size_t i = 0; i < outer_.size(); ++i) outer_[i].add(later.outer_[i].range(0, later.outer_[i].sq.size()), true);
  inner_.add(later.inner_.range(0, later.inner_.sq.size()), true);
}

std::vector<AxisError> AxisErrors::finish(const PairSums& all) const {
  std::vector<AxisError> result(plan_->axes_.size());
  const uint64_t values = plan_->block_ * plan_->blocks_;
  for (size_t i = 0; i < plan_->axes_.size(); ++i) {
    const AxisPlan::Axis& axis = plan_->axes_[i];
    Errors errors;
    errors.resize(axis.entries);
    const auto outer = std::ranges::find(plan_->outer_, i);
    if (values == 0) {
      // Nothing but zeros.
    } else if (outer != plan_->outer_.end()) {
      errors = outer_[static_cast<size_t>(outer - plan_->outer_.begin())];
    } else if (axis.length == 1) {
      errors.sq[0] = all.sq;
      errors.max_abs[0] = all.max_abs;
      errors.outside[0] = all.outside;
      errors.nonfinite[0] = all.nonfinite;
    } else {
      const uint64_t round = axis.stride * axis.length;
      for (uint64_t at = 0; at < plan_->block_; at += round) {
        if (axis.stride == 1 && axis.width == 1) {
          errors.add(inner_.range(at, axis.length), true);
          continue;
        }
        for (uint64_t index = 0; index < axis.length; ++index)
          errors.add_sum(index / axis.width, inner_.range(at + index * axis.stride, axis.stride), true);
      }
    }
    for (uint64_t entry = 0; entry < axis.entries; ++entry) {
      const uint64_t indices = std::min(axis.width, axis.length - entry * axis.width);
      const uint64_t finite = values / axis.length * indices - errors.nonfinite[entry];
      if (finite != 0) errors.sq[entry] /= static_cast<double>(finite);
    }
    result[axis.axis] = {axis.axis, axis.width, std::move(errors.max_abs), std::move(errors.sq),
                         std::move(errors.outside)};
  }
  return result;
}

}  // namespace ttap
