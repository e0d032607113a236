#include "analyze/ops/event_op.h"

#include "core/op_name.h"
#include "store/graph/graph_notes.h"

namespace ttap {

bool is_call_of_operator(const EventRecord& event) {
  return event.kind == "op" || event.kind == "kernel" || event.kind == kNodeKind;
}

EventOp op_of_event(const EventRecord& event) {
  if (event.kind == kNodeKind) {
    NodeNotes notes = read_node_notes(event.notes);
    const bool given = notes.is_given() || notes.target.empty();
    return {.scope = std::move(notes.module), .op = given ? notes.op : operator_of_target(notes.target)};
  }
  if (!is_call_of_operator(event)) return {.scope = std::string(event.name)};
  const OpName name = split_op_name(event.name);
  return {.scope = std::string(name.scope), .backward = name.backward, .op = std::string(name.op)};
}

std::string operator_of(const EventRecord& event) {
  return event.kind == kNodeKind ? op_of_event(event).op : std::string(split_op_name(event.name).op);
}

}  // namespace ttap
