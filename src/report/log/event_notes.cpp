#include "report/log/event_notes.h"

#include "analyze/check/unread.h"
#include "report/text/json_reader.h"

namespace ttap {
namespace {

// A string as it is; of anything else, how Python would write it.
std::string plain_text(const Json& json) { return json.is_string() ? json.get<std::string>() : python_text(json); }

std::string python_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out + "'";
}

void read_dtensor(const Json& tensors, EventNotes& notes) {
  for (const auto& [place, tensor] : tensors.items()) {
    std::string text;
    if (const auto placements = tensor.find("placements"); placements != tensor.end())
      for (const Json& placement : *placements) text += "|" + plain_text(placement);
    notes.placements.emplace_back(place, std::move(text));
    if (const auto mesh = tensor.find("mesh"); mesh != tensor.end() && notes.mesh.empty())
      notes.mesh = plain_text(*mesh);
  }
}

// What is said of the tensor with this role and path.
std::string_view said_of(const std::vector<std::pair<std::string, std::string>>& texts, std::string_view role,
                         std::string_view path) {
  for (const auto& [place, text] : texts)
    if (is_place_of(place, role, path)) return text;
  return {};
}

}  // namespace

std::string python_text(const Json& json) {
  std::string text;
  if (json.is_object()) {
    for (const auto& [name, value] : json.items())
      text += (text.empty() ? "" : ", ") + python_quoted(name) + ": " + python_text(value);
    return "{" + text + "}";
  }
  if (json.is_array()) {
    for (const Json& value : json) text += (text.empty() ? "" : ", ") + python_text(value);
    return "[" + text + "]";
  }
  if (json.is_string()) return python_quoted(json.get_ref<const std::string&>());
  if (json.is_boolean()) return json.get<bool>() ? "True" : "False";
  if (json.is_null()) return "None";
  return json_text(json);
}

std::string_view EventNotes::placements_of(std::string_view role, std::string_view path) const {
  return said_of(placements, role, path);
}

std::string_view EventNotes::format_of(std::string_view role, std::string_view path) const {
  return said_of(formats, role, path);
}

std::string_view EventNotes::sizes_of(std::string_view role, std::string_view path) const {
  return said_of(sizes, role, path);
}

bool has_returned(const EventRecord& event) {
  const bool may_have_raised = event.notes.find("\"raised\"") != std::string_view::npos;
  return event.returned && !(may_have_raised && read_notes(event.notes).raised);
}

EventNotes read_notes(std::string_view text) {
  EventNotes notes;
  if (text.empty()) return notes;
  const auto json = read_json(text);
  notes.readable = json.ok() && json->is_object();
  if (!notes.readable) return notes;
  for (const auto& [name, value] : json->items()) {
    if (name == "class") {
      notes.class_name = plain_text(value);
    } else if (name == "group") {
      notes.group = plain_text(value);
    } else if (name == "hook") {
      notes.hook = python_text(value);
    } else if (name == "gradient") {
      notes.gradient = plain_text(value);
    } else if (name == "raised") {
      notes.raised = value == true;
    } else if (name == "fake") {
      notes.fake = value == true;
    } else if (name == "unread" && value.is_object()) {
      for (const auto& [place, why] : value.items()) notes.unread.emplace_back(place, plain_text(why));
    } else if (name == "sizes" && value.is_object()) {
      for (const auto& [place, sizes] : value.items()) notes.sizes.emplace_back(place, plain_text(sizes));
    } else if (name == "quantized" && value.is_object()) {
      for (const auto& [place, format] : value.items()) notes.formats.emplace_back(place, plain_text(format));
    } else if (name == "dtensor" && value.is_object()) {
      read_dtensor(value, notes);
    }
  }
  return notes;
}

}  // namespace ttap
