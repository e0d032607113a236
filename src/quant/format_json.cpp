#include "quant/format_json.h"

#include <cmath>
#include <limits>

#include "quant/format_words.h"

namespace ttap {
namespace {

// In the order in which they are written.
Error no_value_of(const char* name) {
  return {ErrorCode::kInvalidArgument, "'" + std::string(name) + "' of a quantized format is not of its kind"};
}

// Calls visit(name, field) for every field, so that writing and reading know the same ones.
template <class Format, class Visit>
void for_each_field(Format& format, const Visit& visit) {
  visit("name", format.name);
  visit("source", format.source);
  visit("element", format.element);
  visit("packing", format.packing);
  visit("block_rows", format.block_rows);
  visit("block_columns", format.block_columns);
  visit("shared_rows", format.shared_rows);
  visit("stored_transposed", format.stored_transposed);
  visit("scale_type", format.scale_type);
  visit("scale_layout", format.scale_layout);
  visit("scale_transposed", format.scale_transposed);
  visit("scale_divides", format.scale_divides);
  visit("scale_maximum", format.scale_maximum);
  visit("global_scale", format.global);
  visit("global_per_row", format.global_per_row);
  visit("zero_point", format.zero_point);
  visit("rotated", format.rotated);
}

Status take(const char* name, const Json& json, std::string& field) {
  if (!json.is_string()) return no_value_of(name);
  field = json.get<std::string>();
  return {};
}
Status take(const char* name, const Json& json, bool& field) {
  if (!json.is_boolean()) return no_value_of(name);
  field = json.get<bool>();
  return {};
}
Status take(const char* name, const Json& json, float& field) {
  // What is too large for a float would be infinite, which JSON cannot say.
  if (!json.is_number() || !(std::abs(json.get<double>()) <= std::numeric_limits<float>::max()))
    return no_value_of(name);
  field = json.get<float>();
  return {};
}
Status take(const char* name, const Json& json, int64_t& field) {
  const bool fits = json.is_number_unsigned() ? json.get<uint64_t>() <= std::numeric_limits<int64_t>::max()
                                              : json.is_number_integer();
  if (!fits) return no_value_of(name);
  field = json.get<int64_t>();
  return {};
}
template <class Enum>
Status take(const char* name, const Json& json, Enum& field) {
  if (!json.is_string()) return no_value_of(name);
  TTAP_ASSIGN(field, from_word<Enum>(json.get<std::string>()));
  return {};
}

}  // namespace

std::string to_json(const QuantFormat& format) {
  Json json;
  for_each_field(format, [&](const char* name, const auto& field) {
    if constexpr (std::is_enum_v<std::remove_cvref_t<decltype(field)>>) {
      json[name] = word_for(field);
    } else {
      json[name] = field;
    }
  });
  return json_text(json);
}

Result<QuantFormat> quant_format_from_json(std::string_view text) {
  return quant_format_from(parse_json(text, kDeepestDescription));
}

Result<QuantFormat> quant_format_from(const Json& json) {
  if (!json.is_object())
    return Error{ErrorCode::kInvalidArgument, "the description of a quantized format is not a JSON object"};
  QuantFormat format;
  Status taken;
  for_each_field(format, [&](const char* name, auto& field) {
    const auto found = json.find(name);
    if (taken.ok() && found != json.end()) taken = take(name, *found, field);
  });
  if (!taken.ok()) return std::move(taken).error();
  return format;
}

}  // namespace ttap
