#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ttap/quant.h"

namespace ttap {

// The matrix as it is stored, its blocks, and the grid they form.
struct Geometry {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t block_rows = 1;  // of a block; at least 1
  int64_t block_columns = 1;
  int64_t grid_rows = 0;
  int64_t grid_columns = 0;
  uint64_t row_bytes = 0;  // of the payload

  // Whether there are no values. One of the lengths may then be any number, with no bytes behind it.
  bool empty() const { return rows == 0 || columns == 0; }
};

Result<Geometry> geometry_of(const QuantFormat& format, std::span<const int64_t> shape);

// What is wrong with a format whatever it is used for.
Status check_format(const QuantFormat& format);

inline Error wrong_group(std::string message, std::string hint = {}) {
  Error error{ErrorCode::kInvalidArgument, std::move(message)};
  error.hint = std::move(hint);
  return error;
}

}  // namespace ttap
