#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ttap/recorder.h"

// Executions of graphs, recorded by hand as the graph source records them.
namespace ttap::test {

class RecordedGraph {
 public:
  using Values = std::vector<float>;

  // A value that a node made, for the nodes after it.
  struct Value {
    uint32_t number = 0;
    uint32_t tensor = kNoNumber;
  };
  struct Argument {
    Value value = {};
    Values outside = {};  // recorded with the node, because no node before it made it
    bool written = false;
    Values after = {};           // what a node that writes to it leaves
    std::string_view path = {};  // default: its position
  };
  static Argument of(Value value) { return {.value = value}; }
  static Argument outside(Values values) { return {.outside = std::move(values)}; }

  struct Node {
    std::string_view name;
    std::string_view target;
    std::vector<Argument> in = {};
    std::string_view literals = {};  // behind the tensors: ", 1, alpha=2"
    std::string_view op = "call_function";
    std::string_view module = {};
    Event parent = {};  // default: the graph
    bool returns = true;
    Level level = Level::kFull;
  };

  RecordedGraph(Recorder& recorder, uint32_t pass, uint32_t first_value = 0)
      : recorder_(recorder), pass_(pass), values_(first_value) {}

  void begin(std::string_view name, uint64_t step, std::string_view part = "inference",
             std::string_view stage = "aot") {
    graph_ = recorder_.begin_event({.name = name, .kind = "graph", .pass = pass_});
    notes_ = fmt::format(R"({{"stage": "{}", "part": "{}", "step": {}, "nodes": 3}})", stage, part, step);
  }
  void end() { recorder_.end_event(graph_, {.notes = notes_}); }

  Event begin_module(std::string_view name, Event parent = {}) {
    return recorder_.begin_event(
        {.name = name, .kind = "module", .parent = parent.wanted() ? parent : graph_, .pass = pass_});
  }
  void end_module(const Event& module, const Values& out) {
    capture(module, out, {.role = "out"});
    recorder_.end_event(module, {});
  }

  Value placeholder(std::string_view name, const Values& values) {
    return node({.name = name, .target = name.substr(1), .op = "placeholder"}, values);
  }
  Value node(const Node& node, const Values& result) { return nodes(node, {result}).front(); }
  std::vector<Value> nodes(const Node& node, const std::vector<Values>& results) {
    const Event event = recorder_.begin_event({.name = node.name,
                                               .kind = "node",
                                               .parent = node.parent.wanted() ? node.parent : graph_,
                                               .pass = pass_,
                                               .level = node.level});
    std::vector<Use> uses;
    std::vector<std::string> paths;
    paths.reserve(2 * node.in.size() + results.size());
    std::string arguments;
    for (size_t i = 0; i < node.in.size(); ++i) {
      const Argument& in = node.in[i];
      paths.push_back(in.path.empty() ? fmt::format("/{}", i) : std::string(in.path));
      Value value = in.value;
      if (!in.outside.empty()) {
        value = {++values_, values_};
        capture(event, in.outside, {.role = "in", .path = paths.back(), .value = value.number});
      }
      arguments +=
          fmt::format("{}{}%{}", i == 0 ? "" : ", ", in.path.empty() ? "" : paths.back().substr(1) + "=", uses.size());
      uses.push_back({"in", paths.back(), value.tensor, value.number, in.written});
    }
    for (size_t i = 0; i < node.in.size(); ++i) {
      if (node.in[i].after.empty()) continue;
      const std::string& path = paths[i];
      capture(event, node.in[i].after, {.role = "after", .path = path, .value = ++values_});
      uses.push_back({"after", path, node.in[i].value.tensor, values_});
    }
    arguments += node.literals;
    std::vector<Value> made;
    std::string texts;
    for (size_t i = 0; i < results.size(); ++i) {
      paths.push_back(results.size() == 1 ? "" : fmt::format("/{}", i));
      made.push_back({++values_, values_});
      capture(event, results[i], {.role = "out", .path = paths.back(), .value = values_});
      texts += fmt::format("{}%{}", i == 0 ? "" : ", ", uses.size());
      uses.push_back({"out", paths.back(), values_, values_});
    }
    if (results.size() != 1) texts = fmt::format("({})", texts);
    std::string notes = fmt::format(R"({{"op": "{}", "target": "{}")", node.op, node.target);
    if (!node.module.empty()) notes += fmt::format(R"(, "module": "{}")", node.module);
    notes += R"(, "source": "model.py:32 in forward: x = x + y"})";
    if (node.returns)
      recorder_.end_event(event, {.arguments = arguments, .results = texts, .notes = notes, .uses = uses});
    return made;
  }

  const Event& graph() const { return graph_; }
  uint32_t values() const { return values_; }

 private:
  void capture(const Event& event, const Values& values, const Place& place) {
    const std::vector<int64_t> shape = {static_cast<int64_t>(values.size())};
    recorder_.capture(event, {values.data(), DType::kF32, shape, {}}, place);
  }

  Recorder& recorder_;
  uint32_t pass_;
  uint32_t values_;
  Event graph_ = {};
  std::string notes_;
};

}  // namespace ttap::test
