#pragma once

#include <vector>

#include "quant/element_codes.h"
#include "quant/row_kernels.h"
#include "quant/scale_grid.h"

namespace ttap {

// The values of a group row by row of the matrix as it is stored.
class RowDecoder {
 public:
  // The group must have passed validate(), and outlive this.
  static Result<RowDecoder> create(const QuantGroup& group, const RowKernels& kernels = row_kernels());

  const Geometry& geometry() const { return geometry_; }
  const ScaleGrid& scales() const { return grid_; }
  // As f32.
  void decode(int64_t row, float* out);
  // As `dtype` (f32, bf16, f16, f64).
  void decode(int64_t row, DType dtype, void* out);
  // The codes of a row, a byte each.
  const uint8_t* codes(int64_t row);

 private:
  RowDecoder(const QuantGroup& group, const Geometry& geometry, ScaleGrid grid, const RowKernels& kernels);

  void decode_double(int64_t row, double* out);
  // Fills what the kernels need: parameters of runs whose length they take.
  void load_scales(int64_t row);

  const QuantFormat* format_;
  Geometry geometry_;
  ScaleGrid grid_;
  PackedBytes payload_;
  const RowKernels* kernels_;
  size_t run_;                       // that the kernels are called with
  int64_t scales_of_ = -1;           // the row of blocks, or the row, that these are of
  std::vector<float> block_scales_;  // of each block
  std::vector<float> scales_;        // of each run
  std::vector<float> zeros_;
  std::vector<float> wide_;
  std::vector<uint8_t> bytes_;
  CodeTable table_;  // less the middle, where the format says so
};

// The run that kernels take for blocks of `block_columns` in a row: 1 where their length is none. A block that is the
// whole row is one run.
size_t run_of(int64_t block_columns, int64_t columns);
// Parameters of blocks as those of runs.
void spread(const float* blocks, int64_t block_columns, int64_t columns, size_t run, float* runs);

}  // namespace ttap
