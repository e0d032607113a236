#include "quant/stats_sums.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace ttap {
namespace {

constexpr uint32_t kNoMagnitude = 0xFFFFFFFF;

double range_of(uint32_t largest, uint32_t least) {
  return std::log2(static_cast<double>(std::bit_cast<float>(largest))) -
         std::log2(static_cast<double>(std::bit_cast<float>(least + 1)));
}

}  // namespace

void StatsSums::add_codes(const uint8_t* codes, size_t count) {
  size_t i = 0;
  for (; i + 4 <= count; i += 4)
    for (size_t k = 0; k < 4; ++k) ++counts_[k][codes[i + k]];
  for (; i < count; ++i) ++counts_[0][codes[i]];
}

void StatsSums::add_blocks(std::span<const uint32_t> largest, std::span<const uint32_t> least) {
  for (size_t i = 0; i < largest.size(); ++i) {
    if (keeps_blocks_) block_amax_.push_back(std::bit_cast<float>(largest[i]));
    if (least[i] == kNoMagnitude) {
      ++zero_blocks_;
      continue;
    }
    largest_ = std::max(largest_, largest[i]);
    least_ = std::min(least_, least[i]);
    // The logarithms only where the difference of exponents could be a new record; that of a subnormal does not say.
    const uint32_t smallest = (least[i] + 1) >> 23;
    if (smallest == 0 || static_cast<double>((largest[i] >> 23) - smallest + 1) > widest_)
      widest_ = std::max(widest_, range_of(largest[i], least[i]));
  }
}

void StatsSums::add_scale(float scale) {
  if (std::isnan(scale)) {
    ++scales_nan_;
  } else if (std::isfinite(scale)) {
    scale_min_ = scales_ == 0 ? scale : std::min(scale_min_, scale);
    scale_max_ = scales_ == 0 ? scale : std::max(scale_max_, scale);
    ++scales_;
  }
}

QuantStats StatsSums::result(uint64_t count, int64_t grid_columns) const {
  QuantStats stats;
  stats.count = count;
  stats.not_finite = errors_.not_finite;
  stats.underflow = errors_.underflow;
  stats.overflow = errors_.overflow;
  stats.max_error = errors_.max_error;
  const uint64_t finite = count - errors_.not_finite;
  stats.mse = finite == 0 ? 0 : errors_.error_squares / static_cast<double>(finite);
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  stats.sqnr_db = errors_.error_squares == 0 ? kInfinite : 10 * std::log10(errors_.squares / errors_.error_squares);
  stats.scale_min = scales_ == 0 ? kNan : scale_min_;
  stats.scale_max = scales_ == 0 ? kNan : scale_max_;
  stats.scales_nan = scales_nan_;
  stats.zero_blocks = zero_blocks_;
  stats.amax = std::bit_cast<float>(largest_);
  stats.dynamic_range = least_ == kNoMagnitude ? 0 : range_of(largest_, least_);
  stats.block_dynamic_range = widest_;
  stats.codes.resize(size_t{1} << bits_of(element_));
  for (size_t code = 0; code < 256; ++code)
    for (const auto& counts : counts_) stats.codes[code % stats.codes.size()] += counts[code];
  stats.block_amax = block_amax_;
  stats.block_columns = grid_columns;
  stats.block_rows = grid_columns == 0 ? 0 : static_cast<int64_t>(block_amax_.size()) / grid_columns;
  return stats;
}

}  // namespace ttap
