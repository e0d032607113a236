#pragma once

#include <cstdint>

#include "quant/row_kernels.h"
#include "ttap/quant.h"

// Which scale a block gets. As torchao chooses it, where torchao has the format.
namespace ttap {

// The values of a block; NaN when one of them is.
struct BlockRange {
  float amax = 0;
  float lowest = 0;  // of affine formats only
  float highest = 0;
};

struct BlockScale {
  uint32_t stored = 0;  // the bits
  float factor = 1;     // what values are multiplied with, or divided by, to get codes
  float scale = 1;      // what codes are worth, with the global scale
  float zero = 0;
};

class ScaleChooser {
 public:
  static Result<ScaleChooser> create(const QuantFormat& format, DType input, const EncodeOptions& options);

  Scaling scaling() const { return divides_ ? Scaling::kDivide : Scaling::kMultiply; }
  // Whether arithmetic is done in the tensor's own narrow dtype, with its rounding.
  bool rounds() const { return rounds_; }
  // To the tensor's dtype.
  float rounded(float value) const;

  // The global scale for a tensor, or a row, of this largest magnitude, as it is stored.
  float global(float amax) const;
  BlockScale choose(const BlockRange& range, float global) const;

 private:
  ScaleChooser(const QuantFormat& format, DType input, const EncodeOptions& options);

  BlockScale power_of_two(float amax) const;
  BlockScale two_level(float amax, float global) const;
  // The bits of a real scale, which becomes what they stand for.
  uint32_t stored(float& scale) const;
  BlockScale real(float amax) const;
  BlockScale affine(const BlockRange& range) const;

  QuantFormat format_;
  DType input_;
  EncodeOptions options_;
  float largest_;
  bool divides_ = false;
  bool rounds_ = false;
};

}  // namespace ttap
