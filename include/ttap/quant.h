#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ttap/api.h"
#include "ttap/dtype.h"
#include "ttap/result.h"
#include "ttap/tensor_view.h"

// Quantized tensors: what a payload, its scales and the rest of a group mean together. A tensor of shape […, K] is
// seen as a matrix of M × K, M the product of all but the last dimension.
namespace ttap {

// What one code is.
enum class QuantElement : uint8_t {
  kE4M3,      // largest 448
  kE5M2,      // largest 57344
  kE4M3Fnuz,  // largest 240
  kE5M2Fnuz,  // largest 57344
  kE2M3,      // six bits, largest 7.5
  kE3M2,      // six bits, largest 28
  kE2M1,      // four bits, largest 6
  kInt8,
  kUInt8,
  kInt4,   // two's complement: −8 … 7
  kUInt4,  // 0 … 15
};

// How codes of less than eight bits lie in bytes. Six bits have no high-first form.
enum class QuantPacking : uint8_t {
  kNone,       // a byte each, in its low bits
  kLowFirst,   // without gaps, the first code of a row in the lowest bits
  kHighFirst,  // two a byte, the first in the high half
};

enum class ScaleType : uint8_t { kF32, kF16, kBF16, kE8M0, kE4M3 };

// Where the scale of a block is found. Compact and padded scales are rows of a matrix that may be larger than the grid
// of blocks, which is then cropped; what the padding holds does not matter.
enum class ScaleLayout : uint8_t {
  kCompact,
  kPadded,
  kSwizzled,  // tiles of 128 × 4 as GEMMs want them (swizzled_offset); blocks of one row or of one column
};

// What the second scale is, which the scale of a block is taken with. One for the tensor, one per stored row, or one
// for equally many rows each.
enum class GlobalScale : uint8_t {
  kNone,
  kFactor,   // scale · global
  kDivisor,  // scale / global
  kAmax,     // (scale · amax) · (1 / (element maximum · scale maximum))
};

enum class ZeroPoint : uint8_t {
  kNone,
  kInteger,  // (code − zero) · scale
  kValue,    // (code − middle) · scale + zero, the middle being that of the codes: 0 for signed ones, 8 for kUInt4
  kMiddle,   // (code − middle) · scale: no zero points are stored
};

// How a group of tensors is to be read. All but `name` and `source` decide what the values are.
struct QuantFormat {
  std::string name;  // as quant_format() takes it
  QuantElement element = QuantElement::kE4M3;
  QuantPacking packing = QuantPacking::kNone;
  ScaleType scale_type = ScaleType::kF32;
  // Of the blocks that have a scale each, in the matrix as it is stored; 0 is all of its rows or columns.
  int64_t block_rows = 0;
  int64_t block_columns = 0;
  // Neighbouring rows whose scales were chosen together, and are stored once per row (NVFP4 of 16 × 16 blocks).
  int64_t shared_rows = 1;
  ScaleLayout scale_layout = ScaleLayout::kCompact;
  bool stored_transposed = false;  // the payload is K × M
  bool scale_transposed = false;   // the scales lie column by column of the grid of blocks
  bool scale_divides = false;      // value = code / scale, not code · scale
  GlobalScale global = GlobalScale::kNone;
  bool global_per_row = false;  // encode() makes one for each stored row
  float scale_maximum = 448;    // of GlobalScale::kAmax
  ZeroPoint zero_point = ZeroPoint::kNone;
  bool rotated = false;  // the values were rotated before they were quantized: they decode to something else
  std::string source;    // the library it came from; may be empty

  // Blocks along the columns of the tensor: what a library calls columnwise.
  bool columnwise() const { return stored_transposed || (block_rows != 1 && block_columns == 1); }
};

// By its name: a base, then what differs from its default, each after an underscore:
//   fp8_e4m3 fp8_e5m2 fp8_e4m3fnuz fp8_e5m2fnuz    tensor (default), row
//   fp8_block_1x128 fp8_block_128x128
//   mxfp8_e4m3 mxfp8_e5m2 mxfp6_e2m3 mxfp6_e3m2 mxfp4
//   nvfp4                                          2d (blocks of 16 × 16), row (a global scale per row)
//   int8 int4                                      tensor, channel (default of int8), groupN (int4: group128); asym
// `fp8` and `mxfp8` are the ones of E4M3.
TTAP_API Result<QuantFormat> quant_format(std::string_view name);
// All bases.
TTAP_API std::vector<std::string> quant_format_names();

// A format as a JSON object with every field, equal formats as equal texts, and back: members that are missing have
// their default, others than these are ignored. kInvalidArgument for what is no object, and for a member that cannot be
// one's value.
TTAP_API std::string to_json(const QuantFormat& format);
TTAP_API Result<QuantFormat> quant_format_from_json(std::string_view json);

TTAP_API float largest_value(QuantElement element);
TTAP_API int bits_of(QuantElement element);
// Of one code; bits above those of the element do not count.
TTAP_API float value_of_code(QuantElement element, uint8_t code);

// A quantized tensor in somebody else's memory. What the format does not ask for stays empty.
struct QuantGroup {
  QuantFormat format;
  std::span<const int64_t> shape;  // of the values
  TensorView payload = {};
  std::optional<TensorView> scale = {};
  std::optional<TensorView> global = {};
  std::optional<TensorView> zero_point = {};
};

// Whether shapes, dtypes and format fit together; what is missing or too small is named.
TTAP_API Status validate(const QuantGroup& group);

// The values of a group in C order of its shape, as `dtype`: f32, bf16, f16, or f64. Computed in f32 and rounded once
// more for a narrower dtype; f64 computes in double. `target` has room for all of them. Whether they are the values
// that were quantized is another question: see QuantFormat::rotated.
TTAP_API Status decode(const QuantGroup& group, DType dtype, void* target);

// The scale of each block, with the global one taken in, as decode() uses it: `rows` × `columns` of the grid of blocks.
struct DecodedScales {
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<float> values;
};
TTAP_API Result<DecodedScales> decode_scales(const QuantGroup& group);

// Rounding of the scales of an MX block, which are powers of two.
enum class MxScaleRule : uint8_t { kFloor, kCeil, kEven, kRoundUp };

struct EncodeOptions {
  MxScaleRule mx_rule = MxScaleRule::kFloor;
  // What the format's global scale is to be; without it one that makes use of the whole range. Ignored without one.
  std::optional<float> global = {};
  // The largest magnitude of the tensor, if it is known.
  std::optional<float> amax = {};
  // No scale of an integer format is smaller than this; 0 is the smallest normal number of the tensor's dtype.
  float smallest_scale = 0;
};

// A quantized tensor that owns its bytes.
struct EncodedTensor {
  QuantFormat format;
  std::vector<int64_t> shape;
  std::vector<int64_t> payload_shape, scale_shape, zero_point_shape, global_shape;
  std::vector<std::byte> payload, scale;
  std::vector<int8_t> zero_point;
  std::vector<float> global;

  TTAP_API QuantGroup group() const;  // valid while this lives and is not changed
};

// Quantizes f32, bf16 or f16, as the libraries that have the format do: to nearest, ties to even, saturating. A block
// of zeros, or a tensor of them, gets a scale that decodes to zeros. Scales of integers are rounded to the tensor's
// dtype when the format asks for that scale type.
TTAP_API Result<EncodedTensor> encode(const TensorView& tensor, const QuantFormat& format,
                                      const EncodeOptions& options = {});

// ---- the layout of scales ----

// Where the scale of row i and block j of that row lies, `tiles` being those side by side. T has room for it.
template <class T>
TTAP_HD constexpr T swizzled_in_tiles(T i, T j, T tiles) {
  return ((i / 128) * tiles + j / 4) * 512 + (i % 32) * 16 + ((i % 128) / 32) * 4 + j % 4;
}
// The same, `columns` being the blocks of a row.
TTAP_HD constexpr uint64_t swizzled_offset(uint64_t i, uint64_t j, uint64_t columns) {
  return swizzled_in_tiles<uint64_t>(i, j, (columns + 3) / 4);
}
// Bytes of the swizzled form with all its padding.
constexpr uint64_t swizzled_size(uint64_t rows, uint64_t columns) {
  return (rows + 127) / 128 * 128 * ((columns + 3) / 4 * 4);
}
// `scales` is rows × columns with `pitch` bytes from row to row; padding becomes zero.
TTAP_API void swizzle_scales(const uint8_t* scales, uint64_t rows, uint64_t columns, uint64_t pitch, uint8_t* swizzled);
// `size` bytes are there: padding that is missing at the end is not needed. Fails when a scale is missing.
TTAP_API Status unswizzle_scales(const uint8_t* swizzled, uint64_t size, uint64_t rows, uint64_t columns,
                                 uint8_t* scales);

// ---- statistics ----

// What quantizing did to a tensor. Fractions are of all values. Values that were not finite before count for nothing
// but `not_finite`; a finite one that decodes to NaN or Inf counts as overflow and not towards the error.
struct QuantStats {
  uint64_t count = 0;
  uint64_t not_finite = 0;
  uint64_t underflow = 0;  // not zero before, zero after
  uint64_t overflow = 0;   // would round to beyond the largest code of its block, or is no longer finite
  double mse = 0;
  double sqnr_db = 0;        // 10 log10 of the mean square by the mean square error; infinite without error
  double scale_min = 0;      // decoded, with the global scale; of scales that are finite
  double scale_max = 0;      // NaN when there is none
  uint64_t scales_nan = 0;   // blocks whose scale is NaN
  uint64_t zero_blocks = 0;  // blocks that hold zeros only
  double amax = 0;
  double dynamic_range = 0;        // log2 of the largest by the smallest nonzero magnitude; 0 of zeros
  double block_dynamic_range = 0;  // the largest of a block's own
  double max_error = 0;
  std::vector<uint64_t> codes;    // how often each code occurs
  std::vector<float> block_amax;  // on request: the largest magnitude of each block, row by row of the grid
  int64_t block_rows = 0;         // of that grid
  int64_t block_columns = 0;

  double underflow_percent() const {
    return count == 0 ? 0 : 100.0 * static_cast<double>(underflow) / static_cast<double>(count);
  }
  double overflow_percent() const {
    return count == 0 ? 0 : 100.0 * static_cast<double>(overflow) / static_cast<double>(count);
  }
};

struct QuantStatsOptions {
  EncodeOptions encode = {};
  bool block_amax = false;
};

// What each recipe would do to a tensor of f32, bf16 or f16. All in one pass over its bytes; one more before it when a
// recipe needs the largest magnitude of the tensor and it is not given.
TTAP_API Result<std::vector<QuantStats>> quant_statistics(const TensorView& tensor,
                                                          std::span<const QuantFormat> recipes,
                                                          const QuantStatsOptions& options = {});

// What was done: a group against the tensor it was made from, of the same shape.
TTAP_API Result<QuantStats> quant_statistics(const TensorView& tensor, const QuantGroup& group,
                                             bool block_amax = false);

}  // namespace ttap
