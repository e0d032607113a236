#include "analyze/check/unread.h"

#include "core/json.h"

namespace ttap {

bool is_place_of(std::string_view place, std::string_view role, std::string_view path) {
  const bool with_role = place.size() == role.size() + path.size() && place.starts_with(role) && place.ends_with(path);
  return with_role || (place == path && role != "out") || (place.empty() && path.empty());
}

bool has_no_value(std::string_view why) {
  return why.starts_with("not initialised") || why == "on the meta device" || why.starts_with("a fake tensor");
}

std::string why_unread(const Pass& pass, const TensorRecord& record) {
  if (record.event >= pass.event_count()) return {};
  const EventRecord event = pass.event(record.event);
  if (event.notes.find("\"unread\"") == std::string_view::npos &&
      event.notes.find("\"fake\"") == std::string_view::npos)
    return {};
  const auto notes = parse_sorted_json(event.notes);
  if (!notes.is_object()) return {};
  if (const auto unread = notes.find("unread"); unread != notes.end() && unread->is_object())
    for (const auto& [place, why] : unread->items())
      if (why.is_string() && is_place_of(place, record.role, record.path)) return why.get<std::string>();
  return notes.value("fake", SortedJson()) == true ? "a fake tensor has no values" : "";
}

}  // namespace ttap
