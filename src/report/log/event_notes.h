#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/json.h"
#include "ttap/api.h"
#include "ttap/record.h"

namespace ttap {

// What the notes of an event say, as far as a log shows it; all of it is text of somebody else.
struct EventNotes {
  std::string class_name;  // of a module
  std::string group;       // of a collective
  std::string hook;        // what the user's function returned, as Python writes it: {'mem': '8.1 MB'}
  std::string mesh;        // of its DTensors
  std::string gradient;    // the parameter whose gradient it brings
  bool raised = false;     // it did not return, for it threw an exception
  bool fake = false;       // its tensors had no values
  bool readable = true;    // false: they are not a JSON object
  std::vector<std::pair<std::string, std::string>> unread;      // the place of a tensor, and why its value is not kept
  std::vector<std::pair<std::string, std::string>> placements;  // the place of a DTensor, and `|S(0)|R`
  std::vector<std::pair<std::string, std::string>> formats;     // the place of a quantized tensor, and its format

  std::vector<std::pair<std::string, std::string>> sizes;  // the place of a nested tensor, and `[2, ?, 4]`

  // The placements of the tensor with this role and path, or empty; likewise its format, and its sizes.
  std::string_view placements_of(std::string_view role, std::string_view path) const;
  std::string_view format_of(std::string_view role, std::string_view path) const;
  std::string_view sizes_of(std::string_view role, std::string_view path) const;
};
EventNotes read_notes(std::string_view json);
// Whether the call returned, as far as is known.
TTAP_API bool has_returned(const EventRecord& event);

// JSON as Python writes the same value.
std::string python_text(const Json& json);

}  // namespace ttap
