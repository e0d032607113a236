#include "store/foreign/group_note.h"

#include <algorithm>

#include "core/json.h"
#include "quant/format_json.h"

namespace ttap {
namespace {

static_assert(kDeepestNote == kDeepestDescription + 2, "the list and its items are around the descriptions");

// The description is an object there, so that nobody has to read JSON in a text in JSON in a text.
Json json_of(const TensorRecord& record) {
  Json description = parse_json(record.group, kDeepestDescription);
  return {{"name", record.name},
          {"call", record.call},
          {"role", record.role},
          {"path", record.path},
          {"dtype", dtype_name(record.dtype)},
          {"shape", std::vector<int64_t>(record.shape.begin(), record.shape.end())},
          {"description", description.is_object() ? std::move(description) : Json(record.group)}};
}

std::string text_at(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace

std::string make_groups_note(std::span<const TensorRecord> groups) {
  Json list = Json::array();
  for (const TensorRecord& record : groups) list.push_back(json_of(record));
  return json_text(list);
}

Status add_groups(std::string_view text, ForeignTensors& tensors) {
  return add_groups(parse_json(text, kDeepestNote), tensors);
}

Status add_groups(const Json& list, ForeignTensors& tensors) {
  const Error corrupt{ErrorCode::kCorrupt, "what the file says of quantized tensors does not hold"};
  if (!list.is_array()) return corrupt;
  std::vector<ForeignTensor> groups;
  for (const Json& item : list) {
    if (!item.is_object()) return corrupt;
    const auto call = item.find("call"), shape = item.find("shape"), description = item.find("description");
    const auto dtype = dtype_from_name(text_at(item, "dtype"));
    const bool whole = call != item.end() && call->is_number_unsigned() && call->get<uint64_t>() <= UINT32_MAX &&
                       shape != item.end() && shape->is_array() && description != item.end() && dtype;
    if (!whole) return corrupt;
    ForeignTensor group{.key = {.name = text_at(item, "name"),
                                .call = static_cast<uint32_t>(call->get<uint64_t>()),
                                .role = text_at(item, "role"),
                                .path = text_at(item, "path")},
                        .dtype = *dtype};
    for (const Json& length : *shape) {
      if (!length.is_number_integer()) return corrupt;
      group.shape.push_back(length.get<int64_t>());
    }
    group.group = description->is_string() ? description->get<std::string>() : description->dump();
    const bool sound = is_valid_name(group.key.name) && group.key.call > 0 && is_valid_role(group.key.role) &&
                       is_valid_path(group.key.path) && checked_element_count(group.shape, *dtype).ok() &&
                       !group.group.empty();
    if (!sound) return corrupt;
    groups.push_back(std::move(group));
  }
  std::ranges::move(groups, std::back_inserter(tensors.tensors));
  return {};
}

}  // namespace ttap
