#include "quant/row_decoder.h"

#include <algorithm>
#include <cstring>

#include "quant/code_value.h"
#include "quant/element_codes.h"
#include "quant/packing.h"

namespace ttap {

size_t run_of(int64_t block_columns, int64_t columns) {
  if (block_columns >= columns) return static_cast<size_t>((columns + 15) / 16 * 16);
  return block_columns % 16 == 0 ? static_cast<size_t>(block_columns) : 1;
}

void spread(const float* blocks, int64_t block_columns, int64_t columns, size_t run, float* runs) {
  if (run != 1) {
    std::copy(blocks, blocks + (columns + block_columns - 1) / block_columns, runs);
    return;
  }
  for (int64_t at = 0, block = 0; at < columns; at += block_columns, ++block)
    std::fill(runs + at, runs + std::min(columns, at + block_columns), blocks[block]);
}

RowDecoder::RowDecoder(const QuantGroup& group, const Geometry& geometry, ScaleGrid grid, const RowKernels& kernels)
    : format_(&group.format),
      geometry_(geometry),
      grid_(std::move(grid)),
      payload_(group.payload),
      kernels_(&kernels),
      run_(run_of(geometry.block_columns, geometry.columns)),
      block_scales_(static_cast<size_t>(geometry.grid_columns)),
      scales_(static_cast<size_t>(geometry.columns)),
      table_(code_table(group.format.element)) {
  if (format_->zero_point == ZeroPoint::kValue || format_->zero_point == ZeroPoint::kMiddle)
    for (float& value : table_) value -= middle_of(format_->element);
  if (grid_.has_zeros()) zeros_.resize(scales_.size());
  if (format_->packing != QuantPacking::kNone) bytes_.resize(scales_.size());
}

Result<RowDecoder> RowDecoder::create(const QuantGroup& group, const RowKernels& kernels) {
  TTAP_ASSIGN(const Geometry geometry, geometry_of(group.format, group.shape));
  TTAP_ASSIGN(ScaleGrid grid, ScaleGrid::create(group, geometry));
  return RowDecoder(group, geometry, std::move(grid), kernels);
}

const uint8_t* RowDecoder::codes(int64_t row) {
  const uint8_t* packed = payload_.data() + static_cast<uint64_t>(row) * geometry_.row_bytes;
  if (format_->packing == QuantPacking::kNone) return packed;
  unpack_row(*format_, packed, static_cast<uint64_t>(geometry_.columns), bytes_.data());
  return bytes_.data();
}

void RowDecoder::load_scales(int64_t row) {
  const int64_t block_row = row / geometry_.block_rows;
  const int64_t wanted = grid_.varies_by_row() ? row : block_row;
  if (wanted == scales_of_) return;
  scales_of_ = wanted;
  grid_.fill(row, block_scales_.data());
  spread(block_scales_.data(), geometry_.block_columns, geometry_.columns, run_, scales_.data());
  if (grid_.has_zeros())
    spread(grid_.zeros(block_row), geometry_.block_columns, geometry_.columns, run_, zeros_.data());
}

void RowDecoder::decode(int64_t row, float* out) {
  load_scales(row);
  const auto count = static_cast<size_t>(geometry_.columns);
  const uint8_t* packed = payload_.data() + static_cast<uint64_t>(row) * geometry_.row_bytes;
  const bool is_int8 = format_->element == QuantElement::kInt8;
  if (format_->scale_divides) {
    const uint8_t* bytes = codes(row);
    for (size_t i = 0; i < count; ++i) {
      const float zero = format_->zero_point == ZeroPoint::kInteger ? zeros_[i / run_] : 0.0F;
      out[i] = with_one_nan((zero != 0 ? table_[bytes[i]] - zero : table_[bytes[i]]) / scales_[i / run_]);
    }
  } else if (format_->zero_point == ZeroPoint::kInteger) {
    const auto decode = is_int8 ? kernels_->decode_affine_int8 : kernels_->decode_affine;
    decode(codes(row), count, run_, table_.data(), scales_.data(), zeros_.data(), out);
  } else if (format_->packing == QuantPacking::kLowFirst && bits_of(format_->element) == 4 &&
             format_->zero_point == ZeroPoint::kNone) {
    kernels_->decode_pairs(packed, count, run_, pair_table(format_->element).data(), scales_.data(), out);
  } else {
    const auto decode = is_int8 ? kernels_->decode_int8 : kernels_->decode;
    decode(codes(row), count, run_, table_.data(), scales_.data(), out);
  }
  if (format_->zero_point == ZeroPoint::kValue)
    for (size_t i = 0; i < count; ++i) out[i] = with_one_nan(out[i] + zeros_[i / run_]);
}

void RowDecoder::decode(int64_t row, DType dtype, void* out) {
  if (dtype == DType::kF32) return decode(row, static_cast<float*>(out));
  if (dtype == DType::kF64) return decode_double(row, static_cast<double*>(out));
  const auto count = static_cast<size_t>(geometry_.columns);
  wide_.resize(count);
  auto* narrow = static_cast<uint16_t*>(out);
  const auto to_narrow = dtype == DType::kBF16 ? kernels_->to_bf16 : kernels_->to_f16;
  if (format_->zero_point == ZeroPoint::kValue && !format_->scale_divides) {
    // The product is rounded before the zero is added, as arithmetic in the narrower dtype does.
    load_scales(row);
    kernels_->decode(codes(row), count, run_, table_.data(), scales_.data(), wide_.data());
    to_narrow(wide_.data(), count, narrow);
    (dtype == DType::kBF16 ? kernels_->from_bf16 : kernels_->from_f16)(narrow, count, wide_.data());
    for (size_t i = 0; i < count; ++i) wide_[i] = with_one_nan(wide_[i] + zeros_[i / run_]);
  } else {
    decode(row, wide_.data());
  }
  to_narrow(wide_.data(), count, narrow);
}

void RowDecoder::decode_double(int64_t row, double* out) {
  std::vector<double> scales(block_scales_.size());
  grid_.fill(row, scales.data());
  // Without zero points there is one of zero, which nobody looks at.
  const float none = 0;
  const float* zeros = grid_.has_zeros() ? grid_.zeros(row / geometry_.block_rows) : &none;
  const uint8_t* bytes = codes(row);
  for (int64_t i = 0; i < geometry_.columns; ++i) {
    const auto block = static_cast<size_t>(i / geometry_.block_columns);
    const double zero = zeros[grid_.has_zeros() ? block : 0];
    double value = table_[bytes[i]];
    if (format_->zero_point == ZeroPoint::kInteger) value -= zero;
    value = format_->scale_divides ? value / scales[block] : value * scales[block];
    if (format_->zero_point == ZeroPoint::kValue) value += zero;
    out[i] = with_one_nan(value);
  }
}

}  // namespace ttap
