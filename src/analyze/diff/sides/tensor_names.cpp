#include "analyze/diff/sides/tensor_names.h"

#include <fmt/format.h>

#include "core/json.h"

namespace ttap {
namespace {

// As notes say where a tensor is: `/0`, `out/1`.
std::string place_in_notes(const UseRecord& use) {
  return use.role == "in" ? std::string(use.path) : fmt::format("{}{}", use.role, use.path);
}

// The last step of a path with several: which item of a list it is.
std::string_view item_in(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos || slash == 0 ? std::string_view() : path.substr(slash + 1);
}

}  // namespace

TensorNames::TensorNames(const Side& side) : side_(side) {
  for (uint32_t i = 0; i < side.event_count(); ++i)
    if (const std::string_view notes = side.event(i).notes;
        notes.find("\"names\"") != std::string_view::npos || notes.find("\"gradient\"") != std::string_view::npos)
      read_notes(i, notes);
  if (gradients_.empty()) return;
  for (uint32_t i = 0; i < side.event_count(); ++i) find_state(i);
}

void TensorNames::read_notes(uint32_t event, std::string_view text) {
  const auto notes = parse_sorted_json(text);
  if (!notes.is_object()) return;
  const auto names = notes.value("names", SortedJson());
  const auto gradient = notes.value("gradient", SortedJson());
  for (uint32_t k = 0; k < side_.event(event).use_count; ++k) {
    const UseRecord use = side_.use(event, k);
    if (use.tensor == kNoNumber) continue;
    if (names.is_object())
      if (const auto found = names.find(place_in_notes(use)); found != names.end() && found->is_string())
        names_.try_emplace(use.tensor, found->get<std::string>());
    if (gradient.is_string() && use.role == "out") gradients_.insert_or_assign(use.tensor, gradient.get<std::string>());
  }
}

void TensorNames::find_state(uint32_t event) {
  const uint32_t count = side_.event(event).use_count;
  for (uint32_t k = 0; k < count; ++k) {
    const UseRecord written = side_.use(event, k);
    if (!written.written || names_.contains(written.tensor) || gradients_.contains(written.tensor)) continue;
    for (uint32_t other = 0; other < count; ++other) {
      const UseRecord use = side_.use(event, other);
      if (use.role != "in" || item_in(use.path) != item_in(written.path)) continue;
      const auto gradient = gradients_.find(use.tensor);
      if (gradient == gradients_.end()) continue;
      names_.emplace(written.tensor, "state of " + gradient->second);
      break;
    }
  }
}

uint32_t TensorNames::object_of(uint32_t record) const {
  if (record >= side_.tensor_count()) return kNoNumber;
  const TensorRecord found = side_.tensor(record);
  if (found.event >= side_.event_count()) return kNoNumber;
  for (uint32_t k = 0; k < side_.event(found.event).use_count; ++k)
    if (const UseRecord use = side_.use(found.event, k); use.role == found.role && use.path == found.path)
      return use.tensor;
  return kNoNumber;
}

std::string TensorNames::name_of(uint32_t record) const {
  if (names_.empty() && gradients_.empty()) return {};
  const uint32_t object = object_of(record);
  if (object == kNoNumber) return {};
  if (const auto found = names_.find(object); found != names_.end()) return found->second;
  const auto gradient = gradients_.find(object);
  return gradient != gradients_.end() ? "gradient of " + gradient->second : std::string();
}

bool TensorNames::is_update(uint32_t record) const {
  const uint32_t object = object_of(record);
  if (object == kNoNumber || side_.tensor(record).role == "in") return false;
  const uint32_t event = side_.tensor(record).event;
  for (uint32_t k = 0; k < side_.event(event).use_count; ++k)
    if (const UseRecord use = side_.use(event, k); use.written && use.tensor == object) return true;
  return false;
}

std::string_view parameter_in(std::string_view name) {
  if (const size_t of = name.find(" of "); of != std::string_view::npos) name.remove_prefix(of + 4);
  return name.substr(0, name.find(" (also "));
}

}  // namespace ttap
