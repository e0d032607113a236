#include "store/foreign/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <numeric>
#include <unordered_map>

#include "core/utf8.h"
#include "store/files/posix_file.h"
#include "store/foreign/group_note.h"
#include "store/foreign/logical_stream.h"
#include "store/foreign/safetensors_header.h"

namespace ttap {
namespace {

constexpr uint64_t kMaxHeader = 100'000'000;  // the format's own limit
constexpr size_t kLengthBytes = 8;
constexpr size_t kHeaderAlignment = 64;
constexpr std::string_view kDTypeNote = "ttap.dtype.";

Error corrupt(std::string message, uint64_t offset) {
  return {.code = ErrorCode::kCorrupt, .message = std::move(message), .offset = offset};
}

// Sizes agree with dtype and shape, and the ranges cover the data exactly: the format allows neither holes
// nor overlaps.
Status check_ranges(const std::vector<SafetensorsEntry>& entries, uint64_t data_size, uint64_t data_begin) {
  std::vector<const SafetensorsEntry*> by_offset;
  by_offset.reserve(entries.size());
  for (const SafetensorsEntry& entry : entries) by_offset.push_back(&entry);
  std::ranges::sort(by_offset, {}, [](const auto* entry) { return std::pair(entry->begin, entry->end); });
  uint64_t reached = 0;
  for (const SafetensorsEntry* entry : by_offset) {
    if (entry->begin != reached || entry->end < entry->begin)
      return corrupt(fmt::format("'{}' leaves a hole, overlaps or runs backwards", brief_text(entry->name)),
                     data_begin + reached);
    reached = entry->end;
    if (reached > data_size)
      return Error{
          .code = ErrorCode::kTruncated,
          .message = fmt::format("'{}' ends {} bytes after the file", brief_text(entry->name), reached - data_size),
          .offset = data_begin + data_size};
  }
  if (reached != data_size)
    return corrupt(fmt::format("{} bytes belong to no tensor", data_size - reached), data_begin + reached);
  return {};
}

// Turns the shape as the format counts it into ours, and takes back what the metadata says about the dtype.
Result<ForeignTensor> make_tensor(const SafetensorsEntry& entry, std::string_view true_name, uint64_t header_at) {
  const std::string shown = brief_text(entry.name);
  const auto dtype = dtype_from_safetensors_name(entry.dtype);
  if (!dtype)
    return Error{.code = ErrorCode::kUnsupported,
                 .message = fmt::format("'{}': no counterpart for dtype {}", shown, brief_text(entry.dtype)),
                 .offset = header_at};
  ForeignTensor tensor{.key = key_of_foreign_name(entry.name), .dtype = *dtype, .shape = entry.shape};
  if (*dtype == DType::kF4E2M1FNx2) {
    if (entry.shape.empty() || entry.shape.back() % 2 != 0)
      return Error{.code = ErrorCode::kUnsupported,
                   .message = fmt::format("'{}': F4 whose last dimension is not even does not fill whole bytes", shown),
                   .offset = header_at};
    tensor.shape.back() /= 2;
  }
  if (!true_name.empty()) {
    const auto true_dtype = dtype_from_name(true_name);
    const bool is_c128 =
        true_dtype == DType::kC128 && *dtype == DType::kF64 && !tensor.shape.empty() && tensor.shape.back() == 2;
    const bool is_f4 = true_dtype == DType::kF4E2M1FNx2 && *dtype == DType::kU8;
    if (!is_c128 && !is_f4)
      return corrupt(fmt::format("'{}': its metadata says {}, which is never stored as {}", shown,
                                 brief_text(true_name), entry.dtype),
                     header_at);
    tensor.dtype = *true_dtype;
    if (is_c128) tensor.shape.pop_back();
  }
  auto count = checked_element_count(tensor.shape, tensor.dtype);
  if (!count.ok()) {
    Error error = std::move(count).error();
    error.message = fmt::format("'{}': {}", shown, error.message);
    error.offset = header_at;
    return error;
  }
  if (*count * size_of(tensor.dtype) != entry.end - entry.begin)
    return corrupt(fmt::format("'{}': {} bytes for a shape that needs {}", shown, entry.end - entry.begin,
                               *count * size_of(tensor.dtype)),
                   header_at);
  return tensor;
}

}  // namespace

Result<ForeignTensors> parse_safetensors(std::span<const std::byte> bytes) {
  const auto truncated = [&] {
    return Error{
        .code = ErrorCode::kTruncated, .message = "the .safetensors header is cut short", .offset = bytes.size()};
  };
  if (bytes.size() < kLengthBytes) return truncated();
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) length |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  if (bytes.size() > kLengthBytes && bytes[kLengthBytes] != std::byte{'{'})
    return Error{.code = ErrorCode::kNotThisFormat, .message = "not a .safetensors file", .offset = kLengthBytes};
  if (length > kMaxHeader)
    return Error{.code = ErrorCode::kTooLarge,
                 .message = fmt::format("a header of {} bytes; the format allows {}", length, kMaxHeader),
                 .offset = 0};
  if (length > bytes.size() - kLengthBytes) return truncated();

  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length);
  TTAP_ASSIGN(const SafetensorsHeader header, parse_safetensors_header(text, kLengthBytes));
  const auto data = bytes.subspan(kLengthBytes + length);
  TTAP_TRY(check_ranges(header.tensors, data.size(), kLengthBytes + length));

  ForeignTensors result;
  std::unordered_map<std::string_view, std::string_view> true_dtypes;
  std::string_view groups;
  for (const auto& [name, value] : header.metadata) {
    if (name == kGroupsNote) {
      groups = value;
    } else if (name.starts_with(kDTypeNote)) {
      true_dtypes.emplace(std::string_view(name).substr(kDTypeNote.size()), value);
    } else {
      result.notes.push_back(fmt::format("{}: {}", brief_text(name), brief_text(value)));
    }
  }
  for (const SafetensorsEntry& entry : header.tensors) {
    const auto noted = true_dtypes.find(entry.name);
    const std::string_view true_name = noted == true_dtypes.end() ? std::string_view() : noted->second;
    TTAP_ASSIGN(ForeignTensor tensor, make_tensor(entry, true_name, kLengthBytes));
    tensor.bytes = data.subspan(entry.begin, entry.end - entry.begin);
    result.tensors.push_back(std::move(tensor));
  }
  if (groups.empty()) return result;
  if (const Status added = add_groups(groups, result); !added.ok()) return corrupt(added.error().message, kLengthBytes);
  return result;
}

Result<ForeignTensors> read_safetensors(const std::filesystem::path& path) {
  TTAP_ASSIGN(auto file, MappedFile::open(path));
  auto parsed = parse_safetensors(file->bytes());
  if (!parsed.ok()) return std::move(parsed).error().with_path(path.string());
  parsed->files.push_back(std::move(file));
  return parsed;
}

Status write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                         std::span<const std::pair<std::string, std::string>> metadata) {
  TTAP_TRY(check_writable(tensors));
  // The widest elements first keep every tensor aligned without holes; the header keeps the caller's order.
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater{}, [&](size_t i) { return size_of(tensors[i].view.dtype); });
  std::vector<uint64_t> begins(tensors.size());
  uint64_t reached = 0;
  for (size_t i : order) {
    begins[i] = reached;
    if (__builtin_add_overflow(reached, byte_count(tensors[i].view), &reached))
      return Error{ErrorCode::kTooLarge, "the tensors together are larger than a file can be", path.string()};
  }

  nlohmann::json notes = nlohmann::json::object();
  for (const auto& [name, value] : metadata) {
    if (!is_utf8(name) || !is_utf8(value) || name.starts_with(kDTypeNote))
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("metadata '{}' is not UTF-8, or takes a name that is ours", brief_text(name))};
    notes[name] = value;
  }
  // Built as text, entry by entry: a JSON tree would sort the tensors, or be slow to keep their order.
  std::string header = "{";
  std::string body;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::string& key = tensors[i].key;
    const TensorView& view = tensors[i].view;
    if (key == "__metadata__")
      return Error{ErrorCode::kInvalidArgument, "the format keeps the name '__metadata__' to itself", path.string()};
    std::vector<int64_t> shape(view.shape.begin(), view.shape.end());
    std::string_view type = safetensors_name(view.dtype).value_or("F64");
    if (view.dtype == DType::kC128) shape.push_back(2);
    if (view.dtype == DType::kF4E2M1FNx2) {
      if (shape.empty()) {
        type = "U8";
      } else {
        shape.back() *= 2;
      }
    }
    if (type != safetensors_name(view.dtype)) notes[std::string(kDTypeNote) + key] = dtype_name(view.dtype);
    body +=
        fmt::format(R"({}{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", i == 0 ? "" : ",",
                    nlohmann::json(key).dump(), type, fmt::join(shape, ","), begins[i], begins[i] + byte_count(view));
  }
  if (!notes.empty()) header += fmt::format(R"("__metadata__":{}{})", notes.dump(), body.empty() ? "" : ",");
  header += body + "}";
  header.append((kHeaderAlignment - (kLengthBytes + header.size()) % kHeaderAlignment) % kHeaderAlignment, ' ');
  if (header.size() > kMaxHeader)
    return Error{.code = ErrorCode::kTooLarge,
                 .message = fmt::format("a header of {} bytes; the format allows {}", header.size(), kMaxHeader),
                 .path = path.string(),
                 .hint = "write fewer tensors to a file, or a .ttap segment"};

  TTAP_ASSIGN(OutputFile file, OutputFile::create(path));
  std::array<std::byte, kLengthBytes> length;
  for (size_t i = 0; i < kLengthBytes; ++i) length[i] = static_cast<std::byte>(header.size() >> (8 * i));
  TTAP_TRY(file.write(length));
  TTAP_TRY(file.write(std::as_bytes(std::span(header))));
  for (size_t i : order)
    TTAP_TRY(stream_logical(tensors[i].view, [&](std::span<const std::byte> bytes) { return file.write(bytes); }));
  return file.commit();
}

}  // namespace ttap
