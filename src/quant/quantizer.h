#pragma once

#include <vector>

#include "quant/geometry.h"
#include "quant/row_kernels.h"
#include "quant/scale_choice.h"

namespace ttap {

// Quantizes a row of blocks at a time: its rows are observed, then its scales are chosen, then its rows are encoded.
class Quantizer {
 public:
  static Result<Quantizer> create(const QuantFormat& format, const Geometry& geometry, DType input,
                                  const EncodeOptions& options, const RowKernels& kernels = row_kernels());

  const Geometry& geometry() const { return geometry_; }
  const QuantFormat& format() const { return format_; }
  // Rows whose scales are chosen together.
  int64_t strip_rows() const { return strip_rows_; }
  // The global scale is one of the tensor, which must be known before scales are chosen.
  bool wants_amax() const {
    return format_.global != GlobalScale::kNone && !format_.global_per_row && !options_.global;
  }
  float global(float amax) const { return chooser_.global(amax); }

  void start_strip();
  void observe(const float* row);

  // `global` is that of the tensor; of a row where there is one for each, and then it is returned.
  float choose(float global);
  const std::vector<BlockScale>& chosen() const { return chosen_; }
  void encode(const float* row, uint8_t* codes);
  // What the codes are worth.
  void decode(const uint8_t* codes, float* out);
  // Beyond these, a value of a run overflows.
  const float* lower() const { return lower_.data(); }
  const float* upper() const { return upper_.data(); }
  size_t run() const { return run_; }

  // Of the finite values of each block that was observed; as bits, see RowKernels::extremes.
  const std::vector<uint32_t>& largest_finite() const { return finite_largest_; }
  const std::vector<uint32_t>& least_finite() const { return finite_least_; }

 private:
  Quantizer(const QuantFormat& format, const Geometry& geometry, ScaleChooser chooser, const EncodeOptions& options,
            const RowKernels& kernels);

  void observe_range(const float* row);
  void encode_rounding(const float* row, uint8_t* codes) const;

  QuantFormat format_;
  Geometry geometry_;
  ScaleChooser chooser_;
  EncodeOptions options_;
  const RowKernels* kernels_;
  int64_t strip_rows_;
  size_t run_;  // that the kernels are called with

  // By block.
  std::vector<uint32_t> largest_, finite_largest_, finite_least_;
  std::vector<float> lowest_, highest_;
  std::vector<BlockScale> chosen_;
  // By run.
  std::vector<uint32_t> row_largest_, row_least_;
  std::vector<float> factors_, scales_, zeros_, lower_, upper_;
  std::vector<float> by_block_;
};

// What lies beyond the largest codes of a block.
struct OverflowEdges {
  float lower;
  float upper;
};
OverflowEdges overflow_edges(const QuantFormat& format, float scale, float zero);

}  // namespace ttap
