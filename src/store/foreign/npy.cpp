#include "store/foreign/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/element.h"
#include "store/files/posix_file.h"
#include "store/foreign/logical_stream.h"
#include "store/foreign/npy_header.h"

namespace ttap {
namespace {

std::vector<std::byte> byte_swapped(std::span<const std::byte> bytes, size_t number_size) {
  std::vector<std::byte> swapped(bytes.begin(), bytes.end());
  for (size_t i = 0; i < swapped.size(); i += number_size)
    std::reverse(swapped.begin() + static_cast<std::ptrdiff_t>(i),
                 swapped.begin() + static_cast<std::ptrdiff_t>(i + number_size));
  return swapped;
}

std::vector<int64_t> fortran_strides(std::span<const int64_t> shape) {
  const std::vector<int64_t> reversed(shape.rbegin(), shape.rend());
  std::vector<int64_t> strides = contiguous_strides(reversed);
  std::reverse(strides.begin(), strides.end());
  return strides;
}

Error with_offset(ErrorCode code, std::string message, uint64_t offset, std::string hint = {}) {
  return {.code = code, .message = std::move(message), .offset = offset, .hint = std::move(hint)};
}

}  // namespace

Result<ForeignTensors> parse_npy(std::span<const std::byte> bytes) {
  TTAP_ASSIGN(NpyHeader header, parse_npy_header(bytes));
  TTAP_ASSIGN(const uint64_t count, checked_element_count(header.shape, header.dtype));
  const uint64_t need = count * size_of(header.dtype);
  std::span<const std::byte> data = bytes.subspan(header.size);
  if (data.size() < need)
    return with_offset(ErrorCode::kTruncated,
                       fmt::format("the array needs {} bytes and {} are there", need, data.size()), bytes.size());
  if (data.size() > need) {
    const uint64_t end = header.size + need;
    if (parse_npy_header(bytes.subspan(end)).ok())
      return with_offset(ErrorCode::kUnsupported, "several arrays follow one another in the file", end,
                         "save each array to a file of its own");
    return with_offset(ErrorCode::kCorrupt, fmt::format("{} bytes follow the array", data.size() - need), end);
  }

  ForeignTensors result;
  if (header.big_endian) {
    const size_t numbers = dtype_info(header.dtype).values;
    data = result.owned.emplace_back(byte_swapped(data, size_of(header.dtype) / numbers));
  }
  ForeignTensor tensor{.key = {.name = "tensor"}, .dtype = header.dtype, .shape = header.shape, .bytes = data};
  if (header.fortran_order && header.shape.size() > 1) tensor.strides = fortran_strides(header.shape);
  result.tensors.push_back(std::move(tensor));
  return result;
}

Result<ForeignTensors> read_npy(const std::filesystem::path& path) {
  TTAP_ASSIGN(auto file, MappedFile::open(path));
  auto parsed = parse_npy(file->bytes());
  if (!parsed.ok()) return std::move(parsed).error().with_path(path.string());
  parsed->tensors.front().key.name = path.stem().string();
  parsed->files.push_back(std::move(file));
  return parsed;
}

DType npy_stored_dtype(DType dtype) { return npy_descr(dtype) ? dtype : DType::kF32; }

DType npy_bytes_dtype(DType dtype) { return size_of(dtype) == 1 ? DType::kU8 : DType::kU16; }

Status write_npy(const std::filesystem::path& path, const TensorView& view) {
  TTAP_TRY(validate(view));
  const bool widen = !npy_descr(view.dtype);
  std::vector<int64_t> shape(view.shape.begin(), view.shape.end());
  if (const int64_t values = dtype_info(view.dtype).values; widen && values > 1) {
    if (shape.empty()) shape.push_back(1);
    shape.back() *= values;
  }
  TTAP_ASSIGN(OutputFile file, OutputFile::create(path));
  const std::string header = npy_header(npy_stored_dtype(view.dtype), shape);
  TTAP_TRY(file.write(std::as_bytes(std::span(header))));
  const ByteSink sink = [&](std::span<const std::byte> bytes) { return file.write(bytes); };
  TTAP_TRY(widen ? stream_as_f32(view, sink) : stream_logical(view, sink));
  return file.commit();
}

}  // namespace ttap
