#include "quant/quantizer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "quant/element_codes.h"
#include "quant/row_decoder.h"

namespace ttap {
namespace {

constexpr uint32_t kInfinity = 0x7F800000;
constexpr uint32_t kNone = 0xFFFFFFFF;

}  // namespace

OverflowEdges overflow_edges(const QuantFormat& format, float scale, float zero) {
  if (format.scale_divides) scale = 1.0F / scale;
  // All codes mean the same then: what is lost is lost to it, and none of them is the largest.
  if (scale == 0) return {-std::numeric_limits<float>::infinity(), std::numeric_limits<float>::infinity()};
  const float edge = overflow_edge(format.element);
  if (!is_integer(format.element)) return {-edge * std::fabs(scale), edge * std::fabs(scale)};
  const IntegerRange range = integer_range(format.element);
  const float low = static_cast<float>(range.lowest) - 0.5F;
  const float middle = middle_of(format.element);
  if (format.zero_point == ZeroPoint::kMiddle) zero = middle;
  if (format.zero_point != ZeroPoint::kValue) return {(low - zero) * scale, (edge - zero) * scale};
  return {(low - middle) * scale + zero, (edge - middle) * scale + zero};
}

Quantizer::Quantizer(const QuantFormat& format, const Geometry& geometry, ScaleChooser chooser,
                     const EncodeOptions& options, const RowKernels& kernels)
    : format_(format),
      geometry_(geometry),
      chooser_(std::move(chooser)),
      options_(options),
      kernels_(&kernels),
      strip_rows_(std::max(geometry.block_rows, format.shared_rows)),
      run_(run_of(geometry.block_columns, geometry.columns)) {
  const auto blocks = static_cast<size_t>(geometry.grid_columns);
  const auto columns = static_cast<size_t>(geometry.columns);
  const size_t runs = run_ == 1 ? columns : blocks;
  largest_.resize(blocks);
  finite_largest_.resize(blocks);
  finite_least_.resize(blocks);
  if (format.zero_point == ZeroPoint::kInteger) {
    lowest_.resize(blocks);
    highest_.resize(blocks);
  }
  chosen_.resize(blocks);
  row_largest_.resize(runs);
  row_least_.resize(runs);
  for (auto* parameters : {&factors_, &scales_, &zeros_, &lower_, &upper_}) parameters->resize(runs);
  by_block_.resize(blocks);
}

Result<Quantizer> Quantizer::create(const QuantFormat& format, const Geometry& geometry, DType input,
                                    const EncodeOptions& options, const RowKernels& kernels) {
  TTAP_ASSIGN(ScaleChooser chooser, ScaleChooser::create(format, input, options));
  return Quantizer(format, geometry, std::move(chooser), options, kernels);
}

void Quantizer::start_strip() {
  std::fill(largest_.begin(), largest_.end(), 0u);
  std::fill(finite_largest_.begin(), finite_largest_.end(), 0u);
  std::fill(finite_least_.begin(), finite_least_.end(), kNone);
  std::fill(lowest_.begin(), lowest_.end(), 0.0F);
  std::fill(highest_.begin(), highest_.end(), 0.0F);
}

void Quantizer::observe(const float* row) {
  const auto columns = static_cast<size_t>(geometry_.columns);
  std::fill(row_largest_.begin(), row_largest_.end(), 0u);
  std::fill(row_least_.begin(), row_least_.end(), kNone);
  kernels_->extremes(row, columns, run_, row_largest_.data(), row_least_.data());
  const auto block_columns = static_cast<size_t>(geometry_.block_columns);
  const size_t runs_in_block = run_ == 1 ? block_columns : 1;
  uint32_t top = 0;
  for (size_t block = 0; block < largest_.size(); ++block) {
    const size_t end = std::min(row_largest_.size(), (block + 1) * runs_in_block);
    for (size_t k = block * runs_in_block; k < end; ++k) {
      largest_[block] = std::max(largest_[block], row_largest_[k]);
      top = std::max(top, row_largest_[k]);
      if (row_largest_[k] >= kInfinity) continue;
      finite_largest_[block] = std::max(finite_largest_[block], row_largest_[k]);
      finite_least_[block] = std::min(finite_least_[block], row_least_[k]);
    }
  }
  if (top >= kInfinity) {
    for (size_t i = 0; i < columns; ++i) {
      const uint32_t magnitude = std::bit_cast<uint32_t>(row[i]) & 0x7FFFFFFF;
      if (magnitude >= kInfinity) continue;
      uint32_t& largest = finite_largest_[i / block_columns];
      uint32_t& least = finite_least_[i / block_columns];
      largest = std::max(largest, magnitude);
      least = std::min(least, magnitude - 1);
    }
  }
  if (!lowest_.empty()) observe_range(row);
}

void Quantizer::observe_range(const float* row) {
  for (int64_t block = 0; block < geometry_.grid_columns; ++block) {
    float lowest = lowest_[static_cast<size_t>(block)];
    float highest = highest_[static_cast<size_t>(block)];
    const int64_t end = std::min(geometry_.columns, (block + 1) * geometry_.block_columns);
    for (int64_t i = block * geometry_.block_columns; i < end; ++i) {
      lowest = std::min(lowest, row[i]);
      highest = std::max(highest, row[i]);
    }
    lowest_[static_cast<size_t>(block)] = lowest;
    highest_[static_cast<size_t>(block)] = highest;
  }
}

float Quantizer::choose(float global) {
  if (format_.global_per_row) {
    const uint32_t largest = largest_.empty() ? 0 : *std::max_element(largest_.begin(), largest_.end());
    global = chooser_.global(std::bit_cast<float>(largest));
  }
  for (size_t block = 0; block < chosen_.size(); ++block) {
    BlockRange range{.amax = std::bit_cast<float>(largest_[block])};
    if (!lowest_.empty()) {
      range.lowest = lowest_[block];
      range.highest = highest_[block];
    }
    chosen_[block] = chooser_.choose(range, global);
  }
  const auto set = [&](std::vector<float>& runs, auto value) {
    for (size_t block = 0; block < chosen_.size(); ++block) by_block_[block] = value(chosen_[block]);
    spread(by_block_.data(), geometry_.block_columns, geometry_.columns, run_, runs.data());
  };
  set(factors_, [](const BlockScale& scale) { return scale.factor; });
  set(scales_, [](const BlockScale& scale) { return scale.scale; });
  set(zeros_, [](const BlockScale& scale) { return scale.zero; });
  // The scale is a factor here, whatever is stored.
  QuantFormat multiplying = format_;
  multiplying.scale_divides = false;
  set(lower_, [&](const BlockScale& scale) { return overflow_edges(multiplying, scale.scale, scale.zero).lower; });
  set(upper_, [&](const BlockScale& scale) { return overflow_edges(multiplying, scale.scale, scale.zero).upper; });
  return global;
}

void Quantizer::encode(const float* row, uint8_t* codes) {
  const auto columns = static_cast<size_t>(geometry_.columns);
  if (chooser_.rounds()) {
    encode_rounding(row, codes);
  } else if (is_integer(format_.element)) {
    kernels_->encode_integer(format_.element, row, columns, run_, factors_.data(), zeros_.data(), codes);
  } else {
    kernels_->encode(format_.element, chooser_.scaling(), row, columns, run_, factors_.data(), codes);
  }
}

// As encode_integer, with each step rounded to the tensor's dtype.
void Quantizer::encode_rounding(const float* row, uint8_t* codes) const {
  const IntegerRange range = integer_range(format_.element);
  const auto mask = static_cast<uint8_t>(bits_of(format_.element) == 4 ? 0xF : 0xFF);
  for (size_t i = 0; i < static_cast<size_t>(geometry_.columns); ++i) {
    const float scaled = std::nearbyint(chooser_.rounded(row[i] * factors_[i / run_]));
    const float moved = chooser_.rounded(scaled + zeros_[i / run_]);
    const float within = std::min(std::max(moved, static_cast<float>(range.lowest)), static_cast<float>(range.highest));
    codes[i] = std::isnan(moved) ? uint8_t{0} : static_cast<uint8_t>(static_cast<int>(within) & mask);
  }
}

void Quantizer::decode(const uint8_t* codes, float* out) {
  const auto columns = static_cast<size_t>(geometry_.columns);
  const float* table = code_table(format_.element).data();
  if (format_.zero_point != ZeroPoint::kNone)
    kernels_->decode_affine(codes, columns, run_, table, scales_.data(), zeros_.data(), out);
  else
    kernels_->decode(codes, columns, run_, table, scales_.data(), out);
}

}  // namespace ttap
