#include "report/log/call_text.h"

#include "report/log/argument_text.h"
#include "report/log/event_text.h"
#include "report/log/node_text.h"
#include "report/log/stack_text.h"

namespace ttap {
namespace {

// The text of arguments or results with each `%N` as the type of that tensor.
std::string with_types(const Side& side, uint32_t event, uint32_t use_count, std::string_view text) {
  std::string result;
  for_each_part(
      text, [&](std::string_view part) { result += part; },
      [&](uint32_t number) {
        const uint32_t record = number < use_count ? side.use(event, number).record : kNoNumber;
        record < side.tensor_count() ? append_type(result, side.tensor(record)) : void(result += "tensor");
        return true;
      });
  return result;
}

}  // namespace

std::string call_text(const Side& side, uint32_t index) {
  if (index >= side.event_count()) return {};
  const EventRecord event = side.event(index);
  if (!event.returned) return {};
  // What a recording of modules says of a call are its tensors.
  if (event.kind == "module" && event.arguments.empty() && event.results.empty()) return {};
  std::string text(event.name);
  if (event.kind == kNodeKind) text += " = " + called_text(read_node_notes(event.notes));
  text += '(' + with_types(side, index, event.use_count, event.arguments) + ')';
  if (!event.results.empty()) text += " -> " + with_types(side, index, event.use_count, event.results);
  return text;
}

std::string user_line(std::string_view stack) {
  std::string_view innermost;
  while (!stack.empty()) {
    const size_t line = stack.find_last_of('\n');
    const std::string_view frame = stack.substr(line + 1);  // npos + 1 is 0
    stack = line == std::string_view::npos ? std::string_view() : stack.substr(0, line);
    if (innermost.empty()) innermost = frame;
    if (!is_user_frame(frame)) continue;
    innermost = frame;
    break;
  }
  const size_t tab = innermost.find('\t');
  std::string text(innermost.substr(0, tab));
  if (tab != std::string_view::npos) text.append(": ").append(innermost.substr(tab + 1));
  return text;
}

}  // namespace ttap
