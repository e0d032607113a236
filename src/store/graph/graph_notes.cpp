#include "store/graph/graph_notes.h"

#include <vector>

#include "core/json.h"

namespace ttap {
namespace {

std::string text_of(const SortedJson& object, const char* name) {
  if (!object.is_object()) return {};
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> parts;
  for (size_t dot = text.find('.'); dot != std::string_view::npos; dot = text.find('.')) {
    parts.push_back(text.substr(0, dot));
    text.remove_prefix(dot + 1);
  }
  parts.push_back(text);
  return parts;
}

bool is_python_module(std::string_view name) {
  return name == "torch" || name == "operator" || name == "_operator" || name == "math" || name == "builtins";
}

}  // namespace

GraphNotes read_graph_notes(std::string_view notes) {
  const SortedJson object = parse_sorted_json(notes);
  GraphNotes read{.stage = text_of(object, "stage"), .part = text_of(object, "part")};
  if (object.is_object())
    if (const auto step = object.find("step"); step != object.end() && step->is_number_unsigned())
      read.step = step->get<uint64_t>();
  return read;
}

NodeNotes read_node_notes(std::string_view notes) {
  const SortedJson object = parse_sorted_json(notes);
  return {.op = text_of(object, "op"),
          .target = text_of(object, "target"),
          .module = text_of(object, "module"),
          .source = text_of(object, "source"),
          .parameter = text_of(object, "parameter")};
}

bool is_given_node(const EventRecord& event) {
  return event.kind == kNodeKind && read_node_notes(event.notes).is_given();
}

std::string operator_of_target(std::string_view target) {
  constexpr std::string_view kOps = "torch.ops.";
  const bool registered = target.starts_with(kOps);
  if (registered) target.remove_prefix(kOps.size());
  const std::vector<std::string_view> parts = parts_of(target);
  if (parts.size() == 1) return "method::" + std::string(target);
  if (!registered && is_python_module(parts.front())) {
    const std::string_view library = parts.front() == "_operator" ? "operator" : parts.front();
    return std::string(library) + "::" + std::string(parts.back());
  }
  std::string name = std::string(parts[0]) + "::" + std::string(parts[1]);
  for (size_t i = 2; i < parts.size(); ++i)
    if (i + 1 < parts.size() || parts[i] != "default") name.append(".").append(parts[i]);
  return name;
}

}  // namespace ttap
