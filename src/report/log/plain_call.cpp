#include "report/log/plain_call.h"

#include "core/op_name.h"
#include "report/log/argument_text.h"
#include "report/log/event_text.h"
#include "report/log/node_text.h"
#include "report/text/text.h"

namespace ttap {
namespace {

void append_filled(std::string& line, const Pass& pass, uint32_t event, size_t uses, std::string_view text) {
  for_each_part(
      text, [&](std::string_view part) { line += printable(part); },
      [&](uint32_t number) {
        if (number >= uses) return false;
        const UseRecord use = pass.use(event, number);
        use.record < pass.tensor_count() ? append_type(line, pass.tensor(use.record)) : void(line += 't');
        return true;
      });
}

}  // namespace

std::string plain_call(const Pass& pass, uint32_t event) {
  const EventRecord call = pass.event(event);
  std::string line = printable(call.kind == kNodeKind ? called_text(read_node_notes(call.notes))
                                                      : std::string(split_op_name(call.name).op));
  if (!call.returned) return line;
  line += '(';
  append_filled(line, pass, event, call.use_count, call.arguments);
  line += ')';
  if (call.results.empty()) return line;
  line += " -> ";
  append_filled(line, pass, event, call.use_count, call.results);
  return line;
}

}  // namespace ttap
