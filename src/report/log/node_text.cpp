#include "report/log/node_text.h"

#include <fmt/format.h>

namespace ttap {

std::string called_text(const NodeNotes& node) {
  const bool plain = node.op.empty() || node.op == "call_function" || node.op == "call_method";
  if (plain) return node.target.empty() ? "?" : node.target;
  return node.target.empty() ? node.op : fmt::format("{}[{}]", node.op, node.target);
}

std::string graph_text(const GraphNotes& graph) {
  std::string text = graph.stage;
  if (!graph.part.empty()) text += (text.empty() ? "" : " ") + graph.part;
  if (graph.step) text += fmt::format("{}step {}", text.empty() ? "" : ", ", *graph.step);
  return text.empty() ? text : " (" + text + ")";
}

std::string frame_of(const NodeNotes& node) {
  // `model.py:32 in forward: x = x + y`
  const std::string& frame = node.source;
  const size_t function = frame.find(" in ");
  const size_t colon = function == std::string::npos ? function : frame.find(": ", function);
  return colon == std::string::npos ? frame : frame.substr(0, colon) + '\t' + frame.substr(colon + 2);
}

}  // namespace ttap
