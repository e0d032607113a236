#pragma once

#include <string>
#include <string_view>

#include "store/graph/graph_notes.h"
#include "ttap/record.h"

namespace ttap {

// What ran in an event, and in which module, whatever source tells of it: an op and a kernel say it in their names
// (core/op_name.h), a node of a graph in its notes.
struct EventOp {
  std::string scope = {};  // the module; empty for none
  bool backward = false;   // of a node its graph says that
  std::string op = {};     // aten::add.Tensor; empty for events that are no call of an operator
};
EventOp op_of_event(const EventRecord& event);

// The graph that an event was executed in: the nearest above it, of a Pass or a Side. kNoEvent for none.
template <class Source>
uint32_t graph_around(const Source& source, uint32_t event) {
  while (event < source.event_count()) {
    const EventRecord at = source.event(event);
    if (at.kind == kGraphKind) return event;
    if (at.parent >= event) break;  // an earlier one in a sound file
    event = at.parent;
  }
  return kNoEvent;
}

// The same, with what the graph says of its nodes.
template <class Source>
EventOp op_of_event(const Source& source, uint32_t index) {
  const EventRecord event = source.event(index);
  EventOp found = op_of_event(event);
  if (event.kind != kNodeKind) return found;
  if (const uint32_t graph = graph_around(source, index); graph != kNoEvent)
    found.backward = read_graph_notes(source.event(graph).notes).part == "backward";
  return found;
}

// Only the operator: for a module or any other event, its name.
std::string operator_of(const EventRecord& event);

// Whether an event is the call of an operator: of kind "op", "kernel" or "node".
bool is_call_of_operator(const EventRecord& event);

}  // namespace ttap
