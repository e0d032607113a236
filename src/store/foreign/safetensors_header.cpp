#include "store/foreign/safetensors_header.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "core/utf8.h"

namespace ttap {
namespace {

struct TypeName {
  std::string_view name;
  DType dtype;
};
constexpr TypeName kNames[] = {{"BOOL", DType::kBool},
                               {"U8", DType::kU8},
                               {"U16", DType::kU16},
                               {"U32", DType::kU32},
                               {"U64", DType::kU64},
                               {"I8", DType::kI8},
                               {"I16", DType::kI16},
                               {"I32", DType::kI32},
                               {"I64", DType::kI64},
                               {"F16", DType::kF16},
                               {"BF16", DType::kBF16},
                               {"F32", DType::kF32},
                               {"F64", DType::kF64},
                               {"C64", DType::kC64},
                               {"F8_E4M3", DType::kF8E4M3FN},
                               {"F8_E5M2", DType::kF8E5M2},
                               {"F8_E4M3FNUZ", DType::kF8E4M3FNUZ},
                               {"F8_E5M2FNUZ", DType::kF8E5M2FNUZ},
                               {"F8_E8M0", DType::kF8E8M0FNU},
                               {"F4", DType::kF4E2M1FNx2}};

// Takes the events of nlohmann's parser, so that the text is never held a second time as a tree, the order of
// the tensors is kept, and a name that comes twice is seen. Returning false stops the parser.
class HeaderEvents final : public nlohmann::json_sax<nlohmann::json> {
 public:
  SafetensorsHeader header;
  std::string problem;  // empty when there is none
  size_t problem_at = 0;

  bool start_object(size_t) override {
    switch (place_) {
      case Place::kStart: place_ = Place::kTop; return true;
      case Place::kTop:
        place_ = name_ == "__metadata__" ? Place::kMetadata : Place::kTensor;
        if (place_ == Place::kTensor) header.tensors.emplace_back().name = name_;
        fields_seen_ = 0;
        return true;
      default: return fail("an object where none belongs");
    }
  }

  bool end_object() override {
    if (place_ == Place::kTensor && fields_seen_ != 7) return fail("a tensor lacks its dtype, shape or data_offsets");
    place_ = place_ == Place::kTop ? Place::kEnd : Place::kTop;
    return true;
  }

  bool key(std::string& text) override {
    name_ = text;
    if (place_ == Place::kTop && !tensor_names_.insert(text).second) return fail("the same tensor twice");
    if (place_ == Place::kMetadata && !metadata_names_.insert(text).second) return fail("the same metadata twice");
    if (place_ == Place::kTensor) {
      const unsigned field = text == "dtype" ? 1 : text == "shape" ? 2 : text == "data_offsets" ? 4 : 0;
      if (field == 0) return fail("an unknown field of a tensor");
      if (fields_seen_ & field) return fail("the same field of a tensor twice");
      fields_seen_ |= field;
    }
    return true;
  }

  bool string(std::string& text) override {
    if (place_ == Place::kMetadata) {
      header.metadata.emplace_back(name_, text);
      return true;
    }
    if (place_ != Place::kTensor || name_ != "dtype") return fail("a text where none belongs");
    header.tensors.back().dtype = text;
    return true;
  }

  bool start_array(size_t) override {
    if (place_ != Place::kTensor || name_ == "dtype") return fail("a list where none belongs");
    place_ = name_ == "shape" ? Place::kShape : Place::kOffsets;
    offsets_seen_ = 0;
    return true;
  }

  bool end_array() override {
    if (place_ == Place::kOffsets && offsets_seen_ != 2) return fail("data_offsets are not two numbers");
    place_ = Place::kTensor;
    return true;
  }

  bool number_unsigned(uint64_t value) override {
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return fail("a number above 2^63");
    if (place_ == Place::kShape) {
      header.tensors.back().shape.push_back(static_cast<int64_t>(value));
      return true;
    }
    if (place_ != Place::kOffsets || offsets_seen_ == 2) return fail("a number where none belongs");
    (offsets_seen_++ == 0 ? header.tensors.back().begin : header.tensors.back().end) = value;
    return true;
  }

  bool null() override { return fail("null where none belongs"); }
  bool boolean(bool) override { return fail("a boolean where none belongs"); }
  bool number_integer(int64_t) override { return fail("a negative number"); }
  bool number_float(double, const std::string&) override { return fail("a fraction where none belongs"); }
  bool binary(binary_t&) override { return fail("binary data"); }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) override {
    problem_at = position > 0 ? position - 1 : 0;
    return fail("not JSON in UTF-8");
  }

 private:
  enum class Place : uint8_t { kStart, kTop, kTensor, kShape, kOffsets, kMetadata, kEnd };

  bool fail(std::string_view why) {
    problem = why;
    if (!name_.empty()) problem += fmt::format(", near '{}'", brief_text(name_));
    return false;
  }

  Place place_ = Place::kStart;
  std::string name_;
  unsigned fields_seen_ = 0;
  unsigned offsets_seen_ = 0;
  std::unordered_set<std::string> tensor_names_;
  std::unordered_set<std::string> metadata_names_;
};

}  // namespace

Result<SafetensorsHeader> parse_safetensors_header(std::string_view text, uint64_t offset) {
  HeaderEvents events;
  const bool whole = nlohmann::json::sax_parse(text.begin(), text.end(), &events);
  if (!whole || !events.problem.empty())
    return Error{.code = ErrorCode::kCorrupt,
                 .message = fmt::format("the .safetensors header is malformed: {}", events.problem),
                 .offset = offset + events.problem_at};
  return std::move(events.header);
}

std::optional<std::string_view> safetensors_name(DType dtype) {
  for (const TypeName& known : kNames)
    if (known.dtype == dtype) return known.name;
  return std::nullopt;
}

std::optional<DType> dtype_from_safetensors_name(std::string_view text) {
  for (const TypeName& known : kNames)
    if (known.name == text) return known.dtype;
  return std::nullopt;
}

}  // namespace ttap
