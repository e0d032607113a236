#include "ttap/group.h"
#include "core/json.h"

#include <fmt/format.h>

#include <algorithm>

#include "quant/format_json.h"

namespace ttap {
namespace {

// Many times what any format needs: whoever made a larger one wants something else of us.
constexpr size_t kLongestDescription = 64 << 10;
constexpr size_t kMostParts = 16;

std::string key_text(const TensorRecord& record) { return to_string(record.key()); }

Error in_pass(const Pass& pass, Error error) { return std::move(error).with_path(pass.info().path.string()); }

// The view of a part, as it was recorded.
Result<TensorView> read_part(const Pass& pass, size_t index) {
  const TensorRecord record = pass.tensor(index);
  if (record.true_dtype)
    return in_pass(pass, {.code = ErrorCode::kUnsupported,
                          .message = fmt::format("'{}' was widened from {} when it was exported: its codes are gone",
                                                 key_text(record), dtype_name(*record.true_dtype)),
                          .hint = "read the segment, or export to safetensors"});
  return pass.read(index);
}

}  // namespace

std::string to_json(const GroupDescription& description) {
  Json json;
  json["format"] = parse_json(to_json(description.format));
  json["parts"] = description.parts;
  return json_text(json);
}

Result<GroupDescription> group_description_from_json(std::string_view text) {
  const auto corrupt = [](const std::string& why) {
    return Error{ErrorCode::kCorrupt, "the description of a quantized tensor does not hold: " + why};
  };
  if (text.size() > kLongestDescription) return corrupt("it is too long");
  const Json json = parse_json(text, kDeepestDescription);
  if (!json.is_object()) return corrupt("not a JSON object, or nested too deep");
  const auto format = json.find("format"), parts = json.find("parts");
  if (format == json.end() || parts == json.end() || !parts->is_array()) return corrupt("no 'format', or no 'parts'");
  if (parts->size() > kMostParts) return corrupt("too many parts");
  auto read = quant_format_from(*format);
  if (!read.ok()) return corrupt(read.error().message);
  GroupDescription description{.format = std::move(read).value()};
  for (const Json& part : *parts) {
    if (!part.is_string()) return corrupt("a part that is not a name");
    description.parts.push_back(part.get<std::string>());
  }
  return description;
}

Result<GroupParts> group_of(const Pass& pass, size_t index) {
  const TensorRecord record = pass.tensor(index);
  if (record.group.empty())
    return in_pass(pass, {ErrorCode::kInvalidArgument, fmt::format("'{}' is not quantized", key_text(record))});
  auto description = group_description_from_json(record.group);
  if (!description.ok()) return in_pass(pass, std::move(description).error());
  GroupParts parts{.format = std::move(description->format),
                   .shape = {record.shape.begin(), record.shape.end()},
                   .dtype = record.dtype};
  std::optional<size_t> payload;
  for (const std::string& step : description->parts) {
    std::optional<size_t>* part = step == kPayloadPart       ? &payload
                                  : step == kScalePart       ? &parts.scale
                                  : step == kGlobalScalePart ? &parts.global
                                  : step == kZeroPointPart   ? &parts.zero_point
                                                             : nullptr;
    if (part == nullptr) continue;
    Key key = record.key();
    key.path = append_path(key.path, step);
    *part = pass.find(key);
    if (!*part)
      return in_pass(pass, {.code = ErrorCode::kNotFound,
                            .message = fmt::format("'{}' is quantized, and its part '{}' is not in the pass",
                                                   key_text(record), to_string(key)),
                            .hint = "see `ttap ls` for what was dropped"});
  }
  if (!payload)
    return in_pass(pass, {ErrorCode::kCorrupt, fmt::format("'{}' is quantized, and has no payload", key_text(record))});
  parts.payload = *payload;
  return parts;
}

Result<QuantGroup> read_group(const Pass& pass, const GroupParts& parts) {
  QuantGroup group{.format = parts.format, .shape = parts.shape};
  TTAP_ASSIGN(group.payload, read_part(pass, parts.payload));
  const auto read = [&](std::optional<size_t> part, std::optional<TensorView>& view) -> Status {
    if (!part) return {};
    TTAP_ASSIGN(view, read_part(pass, *part));
    return {};
  };
  TTAP_TRY(read(parts.scale, group.scale));
  TTAP_TRY(read(parts.global, group.global));
  TTAP_TRY(read(parts.zero_point, group.zero_point));
  if (Status sound = validate(group); !sound.ok()) {
    Error error = std::move(sound).error();
    error.message = fmt::format("'{}': {}", key_text(pass.tensor(parts.payload)), error.message);
    return in_pass(pass, std::move(error));
  }
  return group;
}

Result<Values> read_values(const Pass& pass, size_t index) {
  Values values;
  const TensorRecord record = pass.tensor(index);
  if (record.has_bytes || record.group.empty()) {
    TTAP_ASSIGN(values.view, pass.read(index));
    return values;
  }
  TTAP_ASSIGN(GroupParts parts, group_of(pass, index));
  if (parts.format.rotated)
    return in_pass(pass, {.code = ErrorCode::kNotRecorded,
                          .message = fmt::format("the values of '{}' were rotated before they were quantized: what "
                                                 "they were is not recorded",
                                                 key_text(record)),
                          .hint = "look at its parts"});
  TTAP_ASSIGN(const QuantGroup group, read_group(pass, parts));
  // The payload is as long as the shape says, so this is no more than a small multiple of the file.
  values.owned.resize(record.byte_count);
  if (Status decoded = decode(group, parts.dtype, values.owned.data()); !decoded.ok())
    return in_pass(pass, std::move(decoded).error());
  values.decoded = true;
  values.shape = parts.shape;
  values.view = {values.owned.data(), parts.dtype, values.shape, {}};
  return values;
}

bool has_values(const Pass& pass, size_t index) {
  const TensorRecord record = pass.tensor(index);
  if (record.has_bytes || record.group.empty()) return record.has_bytes;
  const auto parts = group_of(pass, index);
  if (!parts.ok() || parts->format.rotated) return false;
  const auto there = [&](std::optional<size_t> part) {
    return !part || (pass.tensor(*part).has_bytes && !pass.tensor(*part).true_dtype);
  };
  return std::ranges::all_of(parts->all(), there);
}

}  // namespace ttap
