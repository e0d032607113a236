#include "cuda/quant_decode.h"

#include <algorithm>
#include <string>
#include <utility>

#include "cuda/kernels/quant/quant_decode.h"
#include "cuda/kernels/quant/quant_unit.h"
#include "quant/element_codes.h"
#include "quant/geometry.h"
#include "quant/scale_grid.h"

namespace ttap::cuda {
namespace {

Result<ByteLayout> byte_layout(const TensorView& view, const char* what) {
  ByteLayout layout{.data = static_cast<const uint8_t*>(view.data), .size = static_cast<uint32_t>(size_of(view.dtype))};
  if (is_contiguous(view)) return layout;
  // From the last dimension up; put the right way round below.
  for (size_t d = view.ndim(); d-- > 0;) {
    const int64_t stride = view.strides[d] * layout.size;
    const auto length = static_cast<uint64_t>(view.shape[d]);
    if (length == 1) continue;
    const uint32_t last = layout.dims - 1;
    if (layout.dims > 0 && stride == layout.strides[last] * static_cast<int64_t>(layout.shape[last])) {
      layout.shape[last] *= length;
      continue;
    }
    if (layout.dims == ByteLayout::kMost) {
      return Error{
          .code = ErrorCode::kUnsupported,
          .message = std::string("the ") + what + " of a quantized tensor has more strides than are read on a GPU",
          .hint = "make it contiguous"};
    }
    layout.shape[layout.dims] = length;
    layout.strides[layout.dims++] = stride;
  }
  for (uint32_t low = 0, high = layout.dims; low + 1 < high; ++low) {
    --high;
    std::swap(layout.shape[low], layout.shape[high]);
    std::swap(layout.strides[low], layout.strides[high]);
  }
  return layout;
}

bool lies_on(const void* data, size_t multiple) { return reinterpret_cast<uintptr_t>(data) % multiple == 0; }

// Blocks of one row with a scale after the other, and nothing between the rows: one long row.
void join_rows(QuantJob& job) {
  const uint64_t rows = job.rows, columns = job.columns.by;
  const bool one_block = job.grid_rows == 1 && job.grid_columns == 1;
  const uint64_t in_whole_bytes = job.packing == QuantPacking::kNone ? 1 : code_bits(job.element) == 4 ? 2 : 4;
  const bool blocks_in_a_row = job.block_rows.by == 1 && columns % job.block_columns.by == 0 && !job.swizzled &&
                               !job.zeros_by_column && job.scale_column_step == 1 &&
                               job.scale_row_step == job.grid_columns;
  if (job.transposed || columns % in_whole_bytes != 0) return;
  if (job.rows_per_global.by < rows || !(one_block || blocks_in_a_row)) return;
  if (one_block) job.block_columns = divisor(rows * columns);
  job.row_bytes *= rows;
  job.columns = divisor(rows * columns);
  job.grid_columns *= job.grid_rows;
  job.rows = job.grid_rows = 1;
  job.block_rows = job.rows_per_global = divisor(1);
}

bool is_read_by_units(const ByteLayout& layout) { return layout.dims == 0 && lies_on(layout.data, layout.size); }

// The arithmetic that units have: code less an integer, times the scale.
bool multiplies(const QuantJob& job) {
  if (job.divides || job.zero_point == ZeroPoint::kValue) return false;
  const bool known = job.zero_dtype == DType::kI8 || job.zero_dtype == DType::kU8 || job.zero_dtype == DType::kF32;
  return job.zero_point != ZeroPoint::kInteger || (known && is_read_by_units(job.zero));
}

// Blocks of one column, as MXFP8 has them: scales that lie beside each other, or in a column of a tile.
bool has_scale_each(const QuantJob& job) {
  const bool is_known = (job.element == QuantElement::kE4M3 || job.element == QuantElement::kE5M2) &&
                        job.scale_type == ScaleType::kE8M0 && job.global_kind == GlobalScale::kNone;
  const bool is_known_layout = job.swizzled ? job.swizzled_by_column : job.scale_column_step == 1;
  return is_known && is_known_layout && job.block_columns.by == 1 && job.columns.by > 1;
}

// Fills in what is needed to decode by units, where that can be done.
void make_units(QuantJob& job) {
  const bool packed = job.packing != QuantPacking::kNone;
  const uint64_t columns = job.columns.by, values = job.values();
  if (job.transposed || job.dtype == DType::kF64 || values < kUnit) return;
  // Their numbers are of 32 bits, as are those of scales.
  if (values >= (uint64_t{1} << 33) || job.rows >= (uint64_t{1} << 30) || job.scales >> 32 != 0) return;
  if (packed && code_bits(job.element) != 4) return;
  if (job.payload.dims != 0 || !lies_on(job.payload.data, packed ? kUnit / 2 : kUnit)) return;
  if (!lies_on(job.target, sizeof(Vector16)) || !is_read_by_units(job.scale) || !multiplies(job)) return;
  if (job.global_kind != GlobalScale::kNone && (job.global_dtype != DType::kF32 || !is_read_by_units(job.global)))
    return;
  const bool each = has_scale_each(job);
  const bool one_scale = job.grid_rows == 1 && job.grid_columns == 1 && job.rows_per_global.by >= job.rows;
  const bool whole = columns % kUnit == 0 && (each || job.block_columns.by % kUnit == 0 || job.grid_columns == 1);
  if (!whole && !(one_scale && job.rows == 1)) return;
  job.units = static_cast<uint32_t>(values / kUnit);
  job.one_scale = one_scale;
  job.scales_in_a_row = job.rows == 1 && !job.swizzled && job.scale_column_step == 1;
  job.global_by_row = job.rows_per_global.by < job.rows;
  job.scale_each = each;
  job.scale_step = job.swizzled ? 16 : 1;
  job.units_per_row = divisor(job.rows == 1 ? job.units : columns / kUnit);
  job.units_per_block =
      divisor(job.grid_columns == 1 ? job.units_per_row.by : std::max<uint64_t>(job.block_columns.by / kUnit, 1));
}

}  // namespace

Result<QuantJob> quant_job(const QuantGroup& group, DType dtype, void* target, bool by_units) {
  if (dtype != DType::kF32 && dtype != DType::kF64 && dtype != DType::kBF16 && dtype != DType::kF16)
    return wrong_group("values decode to f32, f64, bf16 or f16, not to " + std::string(dtype_name(dtype)));
  TTAP_TRY(validate(group));
  const QuantFormat& format = group.format;
  TTAP_ASSIGN(const Geometry geometry, geometry_of(format, group.shape));
  TTAP_ASSIGN(const ScalePlaces places, ScalePlaces::create(format, geometry, group.scale->shape));
  QuantJob job{.target = target,
               .dtype = dtype,
               .rows = static_cast<uint64_t>(geometry.rows),
               .columns = divisor(static_cast<uint64_t>(geometry.columns)),
               .block_rows = divisor(static_cast<uint64_t>(geometry.block_rows)),
               .block_columns = divisor(static_cast<uint64_t>(geometry.block_columns)),
               .grid_rows = static_cast<uint64_t>(geometry.grid_rows),
               .grid_columns = static_cast<uint64_t>(geometry.grid_columns),
               .row_bytes = geometry.row_bytes,
               .rows_per_global = divisor(std::max<uint64_t>(static_cast<uint64_t>(geometry.rows), 1)),
               .element = format.element,
               .packing = format.packing,
               .scale_type = format.scale_type,
               .global_kind = format.global,
               .zero_point = format.zero_point,
               .divides = format.scale_divides,
               .transposed = format.stored_transposed};
  if (job.values() == 0) return job;
  TTAP_ASSIGN(job.payload, byte_layout(group.payload, "payload"));
  TTAP_ASSIGN(job.scale, byte_layout(*group.scale, "scale"));
  job.scales = element_count(*group.scale);
  job.swizzled = places.swizzled();
  job.swizzled_by_column = places.swizzled() && places.by_column();
  job.scale_row_step = places.row_step();
  job.scale_column_step = places.column_step();
  job.scale_tiles = ((job.swizzled_by_column ? job.grid_rows : job.grid_columns) + 3) / 4;
  if (format.global != GlobalScale::kNone) {
    TTAP_ASSIGN(job.global, byte_layout(*group.global, "global scale"));
    job.global_dtype = group.global->dtype;
    job.rows_per_global = divisor(std::max<uint64_t>(job.rows / element_count(*group.global), 1));
    const float largest = largest_value(format.element) * format.scale_maximum;
    job.per_largest = 1 / largest;
    job.per_largest_wide = 1 / static_cast<double>(largest);
  }
  if (format.zero_point == ZeroPoint::kInteger || format.zero_point == ZeroPoint::kValue) {
    TTAP_ASSIGN(job.zero, byte_layout(*group.zero_point, "zero point"));
    job.zero_dtype = group.zero_point->dtype;
    job.zeros_by_column = format.scale_transposed;
  }
  if (format.zero_point == ZeroPoint::kValue || format.zero_point == ZeroPoint::kMiddle)
    job.middle = middle_of(format.element);
  join_rows(job);
  if (by_units) make_units(job);
  return job;
}

Status decode_on_gpu(const QuantGroup& group, DType dtype, void* target, int device, Stream stream) {
  TTAP_ASSIGN(const QuantJob job, quant_job(group, dtype, target));
  if (job.values() == 0) return {};
  const OnDevice on(device);
  return launch_quant_decode(job, stream);
}

}  // namespace ttap::cuda
