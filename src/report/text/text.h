#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "analyze/values/number.h"
#include "core/utf8.h"
#include "ttap/dtype.h"
#include "ttap/record.h"

// How the command writes things down.
namespace ttap {

// Columns on a terminal.
size_t display_width(std::string_view text);

// At most `width` columns, the middle left out: both ends of a name say something.
std::string shorten(std::string_view text, size_t width, bool unicode);

std::string key_text(const TensorRecord& tensor);                                     // printable
std::string shape_text(std::span<const int64_t> numbers);                             // [1, 16, 64]
std::string dtype_text(const TensorRecord& tensor);                                   // the true one
std::string bytes_text(uint64_t bytes);                                               // 4.0 KiB
std::string share_text(uint64_t part, uint64_t whole);                                // 0.2 %
std::string count_text(uint64_t count, std::string_view one, std::string_view many);  // 1 tensor, 2 tensors
std::string time_text(uint64_t unix_ns);                                              // local time, to the second
std::string duration_text(uint64_t ns);                                               // 1.20 ms

// A statistic of a tensor of `dtype`: integers without fraction, the rest with `digits` significant digits.
std::string statistic_text(double value, DType dtype, int digits);
std::string nonfinite_text(const Stats& stats);  // 3 NaN, 1 +Inf; empty when none
std::string number_text(const Number& number, int digits);
// `[0, 3]`, with `.imag` or `.high` behind it where an element has two values.
std::string place_text(const Located& value, DType dtype, std::span<const int64_t> shape);

// How to write an argument in a shell.
std::string shell_quoted(std::string_view text);

}  // namespace ttap
