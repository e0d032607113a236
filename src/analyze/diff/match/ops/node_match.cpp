#include "analyze/diff/match/ops/node_match.h"

#include <map>
#include <tuple>

#include "analyze/ops/event_op.h"

namespace ttap {
namespace {

// The graph, which of its executions, the node, and which of its calls there.
using NodeName = std::tuple<std::string_view, uint32_t, std::string_view, uint32_t>;

std::map<NodeName, uint32_t> nodes_of(const Side& side, const OpList& list) {
  std::map<uint32_t, uint32_t> execution;  // by the event of the graph
  std::map<std::string_view, uint32_t> executions;
  for (uint32_t i = 0; i < side.event_count(); ++i)
    if (const EventRecord event = side.event(i); event.kind == kGraphKind) execution[i] = executions[event.name]++;
  std::map<NodeName, uint32_t> nodes;
  if (execution.empty()) return nodes;
  for (uint32_t i = 0; i < list.ops().size(); ++i) {
    const uint32_t event = list.ops()[i].event;
    const uint32_t graph = graph_around(side, event);
    if (graph == kNoEvent || side.event(event).kind != kNodeKind) continue;
    NodeName name{side.event(graph).name, execution[graph], side.event(event).name, 0};
    while (!nodes.try_emplace(name, i).second) ++std::get<3>(name);
  }
  return nodes;
}

}  // namespace

void match_nodes_of_equal_graphs(OpPairing& ops) {
  const auto nodes_a = nodes_of(ops.side_a, ops.a);
  const auto nodes_b = nodes_a.empty() ? nodes_a : nodes_of(ops.side_b, ops.b);
  for (const auto& [name, op] : nodes_a) {
    const auto other = nodes_b.find(name);
    if (other == nodes_b.end() || ops.a.ops()[op].name != ops.b.ops()[other->second].name) continue;
    ops.join(op, other->second, MatchedBy::kOp);
    // A placeholder has no value of its own.
    if (!ops.a.ops()[op].given) continue;
    const auto given_a = ops.a.outside(ops.a.ops()[op]), given_b = ops.b.outside(ops.b.ops()[other->second]);
    for (size_t i = 0; i < std::min(given_a.size(), given_b.size()); ++i)
      ops.join_values(given_a[i], given_b[i], MatchedBy::kOp);
  }
}

}  // namespace ttap
