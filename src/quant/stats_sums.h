#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "quant/row_kernels.h"

namespace ttap {

// What the statistics of a quantized tensor are made of, row by row and block by block.
class StatsSums {
 public:
  StatsSums(QuantElement element, bool block_amax) : element_(element), keeps_blocks_(block_amax) {}

  RowErrors& errors() { return errors_; }
  void add_codes(const uint8_t* codes, size_t count);
  // A row of blocks: the bits of the largest magnitudes and of the smallest that are not zero, less one.
  void add_blocks(std::span<const uint32_t> largest, std::span<const uint32_t> least);
  void add_scale(float scale);

  QuantStats result(uint64_t count, int64_t grid_columns) const;

 private:
  QuantElement element_;
  bool keeps_blocks_;
  RowErrors errors_;
  // Four, so that equal neighbours do not wait for each other.
  std::array<std::array<uint64_t, 256>, 4> counts_{};
  uint32_t largest_ = 0;
  uint32_t least_ = 0xFFFFFFFF;
  double widest_ = 0;
  uint64_t zero_blocks_ = 0;
  uint64_t scales_ = 0;
  uint64_t scales_nan_ = 0;
  float scale_min_ = 0;
  float scale_max_ = 0;
  std::vector<float> block_amax_;
};

}  // namespace ttap
