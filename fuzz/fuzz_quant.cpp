#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "quant/row_decoder.h"
#include "ttap/group.h"

namespace ttap {
namespace {

// The input, byte by byte; zeros behind its end.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  template <class T>
  T take() {
    T value{};
    if (size_ - at_ >= sizeof value) std::memcpy(&value, data_ + at_, sizeof value);
    at_ = std::min(size_, at_ + sizeof value);
    return value;
  }
  bool flag() { return take<uint8_t>() % 2 != 0; }
  template <class Enum>
  Enum one_of(Enum last) {
    return static_cast<Enum>(take<uint8_t>() % (static_cast<int>(last) + 1));
  }
  // Mostly one that a small tensor has.
  int64_t length() {
    const auto small = take<uint8_t>();
    return small < 250 ? small % 70 : take<int64_t>();
  }
  std::vector<int64_t> shape() {
    std::vector<int64_t> lengths(take<uint8_t>() % 4);
    for (int64_t& each : lengths) each = length();
    return lengths;
  }
  // What is left, again and again.
  std::vector<std::byte> fill(uint64_t count) {
    std::vector<std::byte> bytes(count);
    for (uint64_t i = 0; i < count && at_ < size_; ++i) bytes[i] = std::byte{data_[at_ + i % (size_ - at_)]};
    return bytes;
  }

 private:
  const uint8_t* data_;
  size_t size_;
  size_t at_ = 0;
};

QuantFormat take_format(Input& input) {
  QuantFormat format;
  format.element = input.one_of(QuantElement::kUInt4);
  format.packing = input.one_of(QuantPacking::kHighFirst);
  format.scale_type = input.one_of(ScaleType::kE4M3);
  format.block_rows = input.length();
  format.block_columns = input.length();
  format.shared_rows = input.flag() ? input.length() : 1;
  format.scale_layout = input.one_of(ScaleLayout::kSwizzled);
  format.stored_transposed = input.flag();
  format.scale_transposed = input.flag();
  format.scale_divides = input.flag();
  format.global = input.one_of(GlobalScale::kAmax);
  format.zero_point = input.one_of(ZeroPoint::kMiddle);
  format.scale_maximum = input.take<float>();
  return format;
}

// One tensor of a group, with bytes of its own so that a sanitizer sees who leaves them.
struct Part {
  DType dtype = DType::kU8;
  std::vector<int64_t> shape = {};
  std::vector<int64_t> strides = {};
  std::vector<std::byte> bytes = {};

  TensorView view() const { return {bytes.data(), dtype, shape, strides}; }
};

constexpr uint64_t kMostBytes = 1 << 12;

// Of any shape, or with `fitting` of that one. Nothing when it would be too large to be tried.
std::optional<Part> take_part(Input& input, DType dtype, std::vector<int64_t> fitting) {
  Part part{.dtype = dtype, .shape = std::move(fitting)};
  if (const auto choice = input.take<uint8_t>(); choice % 4 == 3) {
    part.shape = input.shape();
    part.dtype = dtype_from_number(input.take<uint8_t>()).value_or(dtype);
  }
  const auto count = checked_element_count(part.shape, part.dtype);
  if (!count.ok() || *count * size_of(part.dtype) > kMostBytes) return std::nullopt;
  if (part.shape.size() == 2 && input.flag()) part.strides = {1, part.shape[0]};
  part.bytes = input.fill(*count * size_of(part.dtype));
  return part;
}

// A group that is sound decodes, to the same bits on every path.
void decode_all(const QuantGroup& group) {
  const uint64_t count = element_count({.shape = group.shape});
  if (count > kMostBytes) return;
  std::vector<std::byte> values(count * sizeof(float)), others(count * sizeof(double));
  TTAP_CHECK(decode(group, DType::kF32, values.data()).ok());
  TTAP_CHECK(decode(group, DType::kF64, others.data()).ok());
  others.resize(count * sizeof(uint16_t));
  others.shrink_to_fit();
  for (const DType narrow : {DType::kBF16, DType::kF16}) TTAP_CHECK(decode(group, narrow, others.data()).ok());
  const auto scales = decode_scales(group);
  TTAP_CHECK(scales.ok() && scales->values.size() == static_cast<size_t>(scales->rows * scales->columns));
  if (count == 0) return;
  (void)quant_statistics({values.data(), DType::kF32, group.shape, {}}, group, true);
  auto plain = RowDecoder::create(group, plain_row_kernels());
  auto best = RowDecoder::create(group);
  TTAP_CHECK(plain.ok() && best.ok());
  const auto columns = static_cast<size_t>(plain->geometry().columns);
  std::vector<float> a(columns), b(columns);
  for (int64_t row = 0; row < plain->geometry().rows; ++row) {
    plain->decode(row, a.data());
    best->decode(row, b.data());
    TTAP_CHECK(std::memcmp(a.data(), b.data(), columns * sizeof(float)) == 0);
  }
  if (const auto encoded = encode({values.data(), DType::kF32, group.shape, {}}, group.format); encoded.ok())
    TTAP_CHECK(validate(encoded->group()).ok());
}

void decode_group(Input& input) {
  QuantGroup group{.format = take_format(input), .shape = {}};
  const std::vector<int64_t> shape = input.shape();
  group.shape = shape;
  const auto geometry = geometry_of(group.format, shape);
  if (!geometry.ok()) return;
  const auto written = quant_format_from_json(to_json(group.format));
  TTAP_CHECK(written.ok() && to_json(*written) == to_json(group.format));
  constexpr DType kScales[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kU8, DType::kU8};
  const std::vector<int64_t> grid = {geometry->grid_rows, geometry->grid_columns};
  std::vector<int64_t> scale_shape = group.format.scale_transposed ? std::vector{grid[1], grid[0]} : grid;
  if (group.format.scale_layout == ScaleLayout::kSwizzled) {
    const bool by_column = group.format.block_rows != 1;
    scale_shape = {static_cast<int64_t>(
        swizzled_size(static_cast<uint64_t>(grid[by_column ? 1 : 0]), static_cast<uint64_t>(grid[by_column ? 0 : 1])))};
  }
  const auto payload = take_part(input, DType::kU8, {geometry->rows, static_cast<int64_t>(geometry->row_bytes)});
  const auto scale = take_part(input, kScales[static_cast<int>(group.format.scale_type)], scale_shape);
  const auto global = take_part(input, DType::kF32, {input.flag() ? geometry->rows : 1});
  const auto zeros = take_part(input, input.flag() ? DType::kI8 : DType::kF32, grid);
  if (!payload || !scale || !global || !zeros) return;
  group.payload = payload->view();
  group.scale = scale->view();
  group.global = global->view();
  group.zero_point = zeros->view();
  if (validate(group).ok()) decode_all(group);
}

void read_description(std::string_view text) {
  const auto description = group_description_from_json(text);
  if (!description.ok()) return;
  const auto again = group_description_from_json(to_json(*description));
  TTAP_CHECK(again.ok() && to_json(*again) == to_json(*description));
}

}  // namespace
}  // namespace ttap

// The description of a quantized tensor, or a group of any shapes and bytes: the first byte says which. Neither may
// crash who reads it, and what validate() finds sound must decode.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  ttap::Input input(data + 1, size - 1);
  if (data[0] == '{') {
    ttap::read_description({reinterpret_cast<const char*>(data), size});
  } else {
    ttap::decode_group(input);
  }
  return 0;
}
