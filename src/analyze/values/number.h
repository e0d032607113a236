#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "ttap/tensor_view.h"

namespace ttap {

// One real value of a tensor as it stands there: an integer is never rounded to double.
using Number = std::variant<int64_t, uint64_t, double>;

double to_double(const Number& number);
bool is_finite(const Number& number);

// A value and its place. A complex or packed f4 element has two values: parts 0 and 1.
struct Located {
  uint64_t element = 0;  // in C order
  uint8_t part = 0;
  Number value = 0.0;
};

// Element number `element` as one index per dimension.
std::vector<int64_t> index_of(uint64_t element, std::span<const int64_t> shape);

// The value of one element of `dtype` at `bytes`.
Number number_at(DType dtype, const void* bytes, int part);

// Whether a value of this type can be NaN or infinite at all.
bool can_be_nonfinite(DType dtype);

}  // namespace ttap
