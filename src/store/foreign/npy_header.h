#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ttap/dtype.h"
#include "ttap/result.h"

namespace ttap {

// What stands before the elements of a .npy file.
struct NpyHeader {
  DType dtype = DType::kF32;
  bool big_endian = false;
  bool fortran_order = false;
  std::vector<int64_t> shape;
  size_t size = 0;  // of the header in bytes: where the elements begin
};

// Versions 1, 2 and 3. Fails with
//   kNotThisFormat  no magic          kVersion      a later version          kTruncated  the file ends inside
//   kCorrupt        not the dictionary NumPy writes  kTooLarge  more elements than can be addressed
//   kForbidden      an array of Python objects: a pickle  kUnsupported  records, strings, dates, long doubles
Result<NpyHeader> parse_npy_header(std::span<const std::byte> file);

// The header of a little-endian C order array, version 1; a multiple of 64 bytes.
// `dtype` must have a descr.
std::string npy_header(DType dtype, std::span<const int64_t> shape);

// NumPy's name for a dtype, e.g. "<f4"; nothing for what NumPy lacks (bf16, f8, f4).
std::optional<std::string_view> npy_descr(DType dtype);

}  // namespace ttap
