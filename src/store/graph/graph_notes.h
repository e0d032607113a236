#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ttap/record.h"

// What the notes of events say that a graph's execution is made of: kinds "graph" and "node".
namespace ttap {

inline constexpr std::string_view kGraphKind = "graph";
inline constexpr std::string_view kNodeKind = "node";

struct GraphNotes {
  std::string stage = {};  // dynamo, aot
  std::string part = {};   // forward, backward, inference
  std::optional<uint64_t> step = {};
};
GraphNotes read_graph_notes(std::string_view notes);

struct NodeNotes {
  std::string op = {};         // call_function, placeholder, …
  std::string target = {};     // aten.add.Tensor
  std::string module = {};     // the module in which the program called it
  std::string source = {};     // FILE:LINE in FUNCTION: CODE
  std::string parameter = {};  // which one a placeholder or get_attr stands for

  // Whether it hands on what came from outside, and makes nothing: a placeholder, a get_attr.
  bool is_given() const { return op == "placeholder" || op == "get_attr"; }
};
NodeNotes read_node_notes(std::string_view notes);

// An event of kind "node" that is_given().
bool is_given_node(const EventRecord& event);

// The name by which an observer of operators knows a target: `aten.add.Tensor` → `aten::add.Tensor`,
// `aten.relu.default` → `aten::relu`, `torch.nn.functional.linear` → `torch::linear`, `operator.add` → `operator::add`,
// `view` (a method) → `method::view`.
std::string operator_of_target(std::string_view target);

}  // namespace ttap
