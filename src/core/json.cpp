#include "core/json.h"

#include "core/json_string.h"

namespace ttap {

Json parse_json(std::string_view text, int deepest) {
  if (deepest == INT_MAX) return Json::parse(text, nullptr, /*allow_exceptions=*/false);
  bool too_deep = false;
  const auto bearable = [&](int depth, Json::parse_event_t, const Json&) { return !(too_deep |= depth > deepest); };
  Json json = Json::parse(text, bearable, /*allow_exceptions=*/false);
  return too_deep ? Json(Json::value_t::discarded) : json;
}

SortedJson parse_sorted_json(std::string_view text) {
  return SortedJson::parse(text, nullptr, /*allow_exceptions=*/false);
}

bool is_json(std::string_view text) { return SortedJson::accept(text); }

std::string json_text(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

std::string json_string(std::string_view text) { return json_text(Json(text)); }

}  // namespace ttap
