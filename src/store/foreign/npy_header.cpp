#include "store/foreign/npy_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/utf8.h"
#include "ttap/tensor_view.h"

namespace ttap {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

struct DescrName {
  std::string_view descr;
  DType dtype;
};
constexpr DescrName kDescrs[] = {
    {"|b1", DType::kBool}, {"|u1", DType::kU8},  {"<u2", DType::kU16}, {"<u4", DType::kU32},  {"<u8", DType::kU64},
    {"|i1", DType::kI8},   {"<i2", DType::kI16}, {"<i4", DType::kI32}, {"<i8", DType::kI64},  {"<f2", DType::kF16},
    {"<f4", DType::kF32},  {"<f8", DType::kF64}, {"<c8", DType::kC64}, {"<c16", DType::kC128}};

// The Python literal that a header is: a dictionary of a string, a boolean and a tuple of integers.
class HeaderText {
 public:
  HeaderText(std::string_view text, uint64_t offset) : text_(text), start_(offset) {}

  Error corrupt(std::string_view why) const {
    return {.code = ErrorCode::kCorrupt,
            .message = fmt::format("the .npy header is not what NumPy writes: {}", why),
            .offset = start_ + at_};
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  bool at_end() { return skip_space(), at_ == text_.size(); }
  char peek() { return skip_space(), at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(std::string_view token) {
    skip_space();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }

  Result<std::string_view> string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') return corrupt("a string was expected");
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) return corrupt("a string does not end");
    const std::string_view value = text_.substr(at_ + 1, end - at_ - 1);
    if (value.find('\\') != std::string_view::npos) return corrupt("an escape in a string");
    at_ = end + 1;
    return value;
  }

  Result<bool> boolean() {
    if (take("True")) return true;
    if (take("False")) return false;
    return corrupt("True or False was expected");
  }

  Result<std::vector<int64_t>> shape() {
    if (!take("(")) return corrupt("a shape was expected");
    std::vector<int64_t> dims;
    while (!take(")")) {
      if (!dims.empty() && !take(",")) return corrupt("a comma was expected in the shape");
      if (!dims.empty() && take(")")) break;
      skip_space();
      int64_t dim = 0;
      const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), dim);
      if (error != std::errc{} || dim < 0) return corrupt("a dimension is not a number from 0 to 2^63");
      at_ = static_cast<size_t>(end - text_.data());
      take("L");  // Python 2 wrote long integers so
      dims.push_back(dim);
    }
    return dims;
  }

 private:
  std::string_view text_;
  uint64_t start_;
  size_t at_ = 0;
};

Status apply_descr(std::string_view descr, uint64_t offset, NpyHeader& header) {
  const char order = descr.empty() ? '\0' : descr[0];
  const bool has_order = order == '<' || order == '>' || order == '|' || order == '=';
  const std::string_view type = has_order ? descr.substr(1) : descr;
  if (type.starts_with('O'))
    return Error{.code = ErrorCode::kForbidden,
                 .message = "the array holds Python objects, which are pickled code",
                 .offset = offset,
                 .hint = "save numbers instead, e.g. array.astype('float32')"};
  for (const DescrName& known : kDescrs) {
    if (known.descr.substr(1) != type && !(type == "?" && known.dtype == DType::kBool)) continue;
    header.dtype = known.dtype;
    header.big_endian = order == '>' && size_of(known.dtype) > 1;
    return {};
  }
  return Error{.code = ErrorCode::kUnsupported,
               .message = fmt::format("dtype '{}' of the .npy file has no counterpart", brief_text(descr)),
               .offset = offset,
               .hint = "save it as a boolean, integer, float or complex array of at most 8 bytes a number"};
}

Result<NpyHeader> parse_dictionary(std::string_view dictionary, uint64_t offset) {
  HeaderText text(dictionary, offset);
  NpyHeader header;
  bool seen_descr = false, seen_order = false, seen_shape = false;
  if (!text.take("{")) return text.corrupt("no dictionary");
  while (!text.take("}")) {
    TTAP_ASSIGN(const std::string_view key, text.string());
    if (!text.take(":")) return text.corrupt("a colon was expected");
    if (key == "descr" && !std::exchange(seen_descr, true)) {
      if (text.peek() == '[')
        return Error{.code = ErrorCode::kUnsupported,
                     .message = "the array holds records (a structured dtype)",
                     .offset = offset,
                     .hint = "save each field as an array of its own"};
      TTAP_ASSIGN(const std::string_view descr, text.string());
      TTAP_TRY(apply_descr(descr, offset, header));
    } else if (key == "fortran_order" && !std::exchange(seen_order, true)) {
      TTAP_ASSIGN(header.fortran_order, text.boolean());
    } else if (key == "shape" && !std::exchange(seen_shape, true)) {
      TTAP_ASSIGN(header.shape, text.shape());
    } else {
      return text.corrupt(fmt::format("unexpected entry '{}'", brief_text(key)));
    }
    if (!text.take(",") && text.peek() != '}') return text.corrupt("a comma was expected");
  }
  if (!text.at_end()) return text.corrupt("something follows the dictionary");
  if (!seen_descr || !seen_order || !seen_shape) return text.corrupt("descr, fortran_order or shape is missing");
  return header;
}

}  // namespace

Result<NpyHeader> parse_npy_header(std::span<const std::byte> file) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  const auto truncated = [&] {
    return Error{.code = ErrorCode::kTruncated, .message = "the .npy header is cut short", .offset = file.size()};
  };
  if (!text.starts_with(kMagic.substr(0, text.size())))
    return Error{.code = ErrorCode::kNotThisFormat, .message = "not a .npy file", .offset = 0};
  if (text.size() < kMagic.size() + 2) return truncated();
  const auto version = static_cast<uint8_t>(file[6]);
  if (version < 1 || version > 3 || text[7] != 0)
    return Error{.code = ErrorCode::kVersion,
                 .message = fmt::format("version {}.{} of .npy is not known", version, static_cast<uint8_t>(file[7])),
                 .offset = 6};
  const size_t length_bytes = version == 1 ? 2 : 4;
  const size_t begin = kMagic.size() + 2 + length_bytes;
  if (text.size() < begin) return truncated();
  size_t length = 0;
  for (size_t i = 0; i < length_bytes; ++i) length |= static_cast<size_t>(file[8 + i]) << (8 * i);
  if (length > text.size() - begin) return truncated();

  TTAP_ASSIGN(NpyHeader header, parse_dictionary(text.substr(begin, length), begin));
  header.size = begin + length;
  if (auto count = checked_element_count(header.shape, header.dtype); !count.ok()) {
    Error error = std::move(count).error();
    error.offset = begin;
    return error;
  }
  return header;
}

std::string npy_header(DType dtype, std::span<const int64_t> shape) {
  const auto descr = npy_descr(dtype);
  TTAP_CHECK(descr.has_value());
  std::string dims = fmt::format("{}", fmt::join(shape, ", "));
  if (shape.size() == 1) dims += ',';
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", *descr, dims);
  // kMaxDims dimensions of 20 characters and a comma stay far below the 65,535 bytes of version 1.
  const size_t begin = kMagic.size() + 4;
  const size_t total = (begin + text.size() + 1 + 63) / 64 * 64;
  text.append(total - begin - text.size() - 1, ' ');
  text += '\n';
  std::string header(kMagic);
  header += {'\x01', '\x00', static_cast<char>(text.size() & 0xFF), static_cast<char>(text.size() >> 8)};
  return header + text;
}

std::optional<std::string_view> npy_descr(DType dtype) {
  for (const DescrName& known : kDescrs)
    if (known.dtype == dtype) return known.descr;
  return std::nullopt;
}

}  // namespace ttap
