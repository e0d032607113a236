#pragma once

#include <cstdint>
#include <vector>

#include "quant/geometry.h"

namespace ttap {

// The bytes of a view in C order: its own, or a copy where it has strides.
class PackedBytes {
 public:
  explicit PackedBytes(const TensorView& view);
  PackedBytes(PackedBytes&&) = default;  // and no copy, whose bytes would be another's
  PackedBytes& operator=(PackedBytes&&) = default;
  const uint8_t* data() const { return data_; }

 private:
  std::vector<uint8_t> copy_;
  const uint8_t* data_;
};

// Where the scale of each block of a grid lies, whatever the layout. Blocks of the grid are named by row and column.
class ScalePlaces {
 public:
  // `shape` is that of the tensor of scales.
  static Result<ScalePlaces> create(const QuantFormat& format, const Geometry& geometry,
                                    std::span<const int64_t> shape);

  uint64_t of(int64_t row, int64_t column) const {
    if (swizzled_) {
      return transposed_ ? swizzled_offset(static_cast<uint64_t>(column), static_cast<uint64_t>(row), width_)
                         : swizzled_offset(static_cast<uint64_t>(row), static_cast<uint64_t>(column), width_);
    }
    return static_cast<uint64_t>(row) * row_step() + static_cast<uint64_t>(column) * column_step();
  }
  bool swizzled() const { return swizzled_; }
  bool by_column() const { return transposed_; }
  // Of scales that are not swizzled, or no longer.
  uint64_t row_step() const { return transposed_ ? 1 : width_; }
  uint64_t column_step() const { return transposed_ ? width_ : 1; }

 private:
  bool swizzled_ = false;
  bool transposed_ = false;  // column by column, also before swizzling
  uint64_t width_ = 0;       // of a stored row, or blocks of one when swizzled
};

// The scales of a group as floats, the global one taken in, and its zero points.
class ScaleGrid {
 public:
  // The group must have passed validate(). Without `with_values` only shapes are looked at.
  static Result<ScaleGrid> create(const QuantGroup& group, const Geometry& geometry, bool with_values = true);

  // Of the blocks that stored row `row` runs through.
  void fill(int64_t row, float* scales) const;
  void fill(int64_t row, double* scales) const;
  // Whether two rows of one row of blocks may differ, because the global scale is not the same.
  bool varies_by_row() const { return rows_per_global_ < geometry_.block_rows; }

  bool has_zeros() const { return !zeros_.empty(); }
  // Of grid row `row`.
  const float* zeros(int64_t row) const { return zeros_.data() + row * geometry_.grid_columns; }

 private:
  explicit ScaleGrid(const Geometry& geometry) : geometry_(geometry) {}
  template <class T>
  void fill_as(int64_t row, T* scales) const;

  Geometry geometry_;
  GlobalScale kind_ = GlobalScale::kNone;
  float largest_ = 1;         // what GlobalScale::kAmax is for
  std::vector<float> block_;  // of the grid, without the global scale
  std::vector<float> global_;
  int64_t rows_per_global_ = 0;
  std::vector<float> zeros_;
};

}  // namespace ttap
