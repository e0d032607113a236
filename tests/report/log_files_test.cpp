// The log for programs: JSON, Perfetto, Model Explorer.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "report/log/log.h"
#include "sample_ops.h"
#include "scratch.h"
#include "written_text.h"

namespace ttap {
namespace {

using nlohmann::json;

class LogFiles : public testing::Test {
 protected:
  LogFiles() : pass_(Pass::open(test::write_sample_ops(scratch_.path())).value()) {}

  json as_json(const LogOptions& options = {}) {
    return json::parse(written([&](Output& out) { EXPECT_TRUE(write_log_json(pass_, options, out).ok()); }));
  }
  template <class Writer, class... Arguments>
  json made_by(const LogOptions& options, Arguments... arguments) {
    return json::parse(written([&](Output& out) {
      Writer writer(out, arguments...);
      EXPECT_TRUE(writer.add(pass_, options, {.rank = 1, .pid = 77}).ok());
      writer.finish();
    }));
  }
  json perfetto(const LogOptions& options = {}) {
    return made_by<PerfettoWriter>(options, pass_.info().started_unix_ns - 5'000)["traceEvents"];
  }
  json graph(const LogOptions& options = {}) { return made_by<ModelExplorerWriter>(options)["graphs"][0]; }

  // The only event with this name.
  uint32_t event(std::string_view name) { return find_event(pass_, name).value(); }

  const ScratchDirectory scratch_;
  const Pass pass_;
};

TEST_F(LogFiles, JsonHasEveryEventWithExactValues) {
  const json events = as_json();
  ASSERT_EQ(events.size(), pass_.event_count());
  const json& log = events[event("model:aten::log")];
  EXPECT_EQ(log["scope"], "model");
  EXPECT_EQ(log["op"], "aten::log");
  EXPECT_EQ(log["key"], "model:aten::log");
  EXPECT_EQ(log["parent"], event("model"));
  EXPECT_EQ(log["duration_ns"], 1000);
  EXPECT_EQ(log["uses"][0]["producer"], event("model.mlp:aten::mm"));
  EXPECT_EQ(log["uses"][1]["hash"], log["tensors"][0]["hash"]);
  EXPECT_EQ(log["tensors"][0]["statistics"]["neg_inf"], 1);
  EXPECT_EQ(log["tensors"][0]["statistics"]["max"].get<double>(), double{0.4054651F});
  const json& mm = events[event("model.mlp:aten::mm")];
  EXPECT_EQ(mm["uses"][0]["producer"], nullptr) << "it came from outside";
  EXPECT_EQ(mm["notes"]["hook"]["peak"], 9);
  const json& backward = events[event("model:backward:aten::div.Tensor")];
  EXPECT_EQ(backward["backward"], true);
  EXPECT_EQ(backward["forward"], event("model:aten::log"));
  EXPECT_EQ(events.back()["returned"], false);
  EXPECT_EQ(events.back()["duration_ns"], nullptr);
}

TEST_F(LogFiles, JsonHearsTheFilter) {
  const json events = as_json({.filter = "aten::mm$"});
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0]["name"], "model.mlp:aten::mm");
}

TEST_F(LogFiles, PerfettoHasASliceForEachCallOnItsThread) {
  std::map<uint64_t, json> slices;
  for (const json& entry : perfetto())
    if (entry["ph"] == "X" || entry["ph"] == "i") slices[entry["args"]["event"].get<uint64_t>()] = entry;
  ASSERT_EQ(slices.size(), pass_.event_count());
  for (const auto& [index, slice] : slices) {
    const EventRecord record = pass_.event(index);
    EXPECT_EQ(slice["tid"], record.thread);
    EXPECT_EQ(slice["pid"], 77);
    EXPECT_DOUBLE_EQ(slice["ts"].get<double>(), 5 + static_cast<double>(record.time_ns) / 1000);
    if (record.returned) {
      EXPECT_DOUBLE_EQ(slice["dur"].get<double>(), static_cast<double>(record.duration_ns) / 1000);
    }
  }
  const json& mm = slices[event("model.mlp:aten::mm")];
  EXPECT_EQ(mm["name"], "aten::mm");
  EXPECT_EQ(mm["cat"], "op");
  EXPECT_EQ(mm["args"]["module"], "model.mlp");
  const TensorRecord product = pass_.tensor(*pass_.find({.name = "model.mlp:aten::mm"}));
  EXPECT_EQ(mm["args"]["out"], "f32[1, 2] " + to_string(product.fingerprint.hash));
  EXPECT_EQ(slices.rbegin()->second["ph"], "i") << "it did not return, so it has no length";
}

TEST_F(LogFiles, PerfettoSlicesOfAThreadNest) {
  struct Slice {
    double begin, end;
  };
  std::map<uint64_t, std::vector<Slice>> open;
  for (const json& entry : perfetto()) {
    if (entry["ph"] != "X") continue;
    const Slice slice{entry["ts"].get<double>(), entry["ts"].get<double>() + entry["dur"].get<double>()};
    auto& stack = open[entry["tid"].get<uint64_t>()];
    while (!stack.empty() && stack.back().end <= slice.begin) stack.pop_back();
    if (!stack.empty()) {
      EXPECT_LE(slice.end, stack.back().end);
    }
    stack.push_back(slice);
  }
}

TEST_F(LogFiles, PerfettoNamesProcessAndThreadsAndDrawsTheBackward) {
  std::map<uint64_t, std::string> threads;
  std::string process;
  std::map<uint64_t, std::pair<json, json>> arrows;
  for (const json& entry : perfetto()) {
    if (entry["name"] == "process_name") process = entry["args"]["name"];
    if (entry["name"] == "thread_name") threads[entry["tid"].get<uint64_t>()] = entry["args"]["name"];
    if (entry["ph"] == "s") arrows[entry["id"].get<uint64_t>()].first = entry;
    if (entry["ph"] == "f") arrows[entry["id"].get<uint64_t>()].second = entry;
  }
  EXPECT_EQ(process, "rank 1 (pid 77)");
  EXPECT_EQ(threads.size(), 2u);
  EXPECT_EQ(threads[4712], "thread 4712");
  ASSERT_EQ(arrows.size(), 2u);
  const auto& [from, to] = arrows[0];
  const EventRecord forward = pass_.event(event("model:aten::log"));
  EXPECT_EQ(from["tid"], forward.thread);
  EXPECT_DOUBLE_EQ(from["ts"].get<double>(), 5 + static_cast<double>(forward.time_ns) / 1000);
  EXPECT_EQ(to["tid"], 4712);
  EXPECT_EQ(to["bp"], "e");
}

TEST_F(LogFiles, PerfettoDrawsNoArrowFromWhatIsLeftOut) {
  const uint32_t backward = event("model:backward:aten::div.Tensor");
  for (const LogOptions& options : {LogOptions{.filter = "backward"}, LogOptions{.around = backward, .neighbours = 1}})
    for (const json& entry : perfetto(options)) EXPECT_NE(entry["ph"], "s") << entry;
}

// Every edge of a graph comes from an output of a node that is there.
std::map<std::string, json> checked_nodes(const json& graph) {
  std::map<std::string, json> nodes;
  for (const json& node : graph["nodes"]) {
    EXPECT_TRUE(nodes.emplace(node["id"].get<std::string>(), node).second) << "twice: " << node["id"];
    for (const char* member : {"label", "namespace"}) EXPECT_TRUE(node[member].is_string());
    for (const json& attribute : node["attrs"])
      EXPECT_TRUE(attribute["key"].is_string() && attribute["value"].is_string());
  }
  for (const auto& [id, node] : nodes) {
    if (!node.contains("incomingEdges")) continue;
    for (const json& edge : node["incomingEdges"]) {
      const auto source = nodes.find(edge["sourceNodeId"].get<std::string>());
      EXPECT_NE(source, nodes.end()) << id << " hangs on " << edge["sourceNodeId"];
      if (source == nodes.end()) continue;
      std::set<std::string> outputs;
      for (const json& output : source->second["outputsMetadata"]) outputs.insert(output["id"].get<std::string>());
      EXPECT_TRUE(outputs.contains(edge["sourceNodeOutputId"].get<std::string>())) << id;
    }
  }
  return nodes;
}

TEST_F(LogFiles, ModelExplorerHasANodeForEachOpInTheLayerOfItsModule) {
  const json made = graph();
  EXPECT_EQ(made["id"], "rank 1 (pid 77), pass 0");
  auto nodes = checked_nodes(made);
  const json& mm = nodes[std::to_string(event("model.mlp:aten::mm"))];
  EXPECT_EQ(mm["label"], "aten::mm");
  EXPECT_EQ(mm["namespace"], "model/mlp");
  EXPECT_EQ(nodes[std::to_string(event("model.mlp:backward:aten::mm"))]["namespace"], "model/mlp/backward");
  EXPECT_FALSE(nodes.contains(std::to_string(event("model")))) << "a module is a layer";
  EXPECT_EQ(made["groupNodeAttributes"]["model/mlp"]["class"], "Linear");
}

TEST_F(LogFiles, ModelExplorerEdgesComeFromWhoMadeTheValue) {
  auto nodes = checked_nodes(graph());
  EXPECT_EQ(nodes.size(), 8u + 5u) << "ops, and values from outside";
  const json& edges = nodes[std::to_string(event("model.mlp:aten::mm"))]["incomingEdges"];
  ASSERT_EQ(edges.size(), 2u);
  EXPECT_TRUE(edges[0]["sourceNodeId"].get<std::string>().starts_with("value")) << "an input from outside";
  EXPECT_EQ(edges[1]["sourceNodeId"], std::to_string(event("model.mlp:aten::t")));
  EXPECT_EQ(edges[1]["targetNodeInputId"], "1");
  const json& to_log = nodes[std::to_string(event("model:aten::log"))]["incomingEdges"];
  EXPECT_EQ(to_log[0]["sourceNodeId"], std::to_string(event("model.mlp:aten::mm")));
}

TEST_F(LogFiles, ModelExplorerShowsModulesWhereThereAreNoOps) {
  test::SampleOps modules(scratch_.path(), 1);
  const uint32_t model = modules.call({.name = "model", .kind = "module"});
  modules.call({.name = "model.mlp",
                .kind = "module",
                .parent = model,
                .tensors = {{.path = "/0", .shape = {2}},
                            {.role = "param", .path = "/weight", .shape = {1, 2}},
                            {.role = "out", .shape = {1}}}});
  const Pass pass = Pass::open(modules.finish()).value();
  const json made = json::parse(written([&](Output& out) {
    ModelExplorerWriter writer(out);
    EXPECT_TRUE(writer.add(pass, {}, {}).ok());
    writer.finish();
  }));
  auto nodes = checked_nodes(made["graphs"][0]);
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_EQ(nodes["1"]["label"], "mlp");
  EXPECT_EQ(nodes["1"]["namespace"], "model");
  ASSERT_EQ(nodes["1"]["outputsMetadata"].size(), 1u);
  EXPECT_EQ(nodes["1"]["outputsMetadata"][0]["attrs"][0]["value"], "f32[1]");
}

TEST_F(LogFiles, ModelExplorerLeavesNoEdgeHangingWhenFiltered) {
  const auto nodes = checked_nodes(graph({.filter = "aten::(log|mm)$"}));
  EXPECT_TRUE(nodes.contains(std::to_string(event("model:aten::log"))));
  EXPECT_FALSE(nodes.contains(std::to_string(event("model.mlp:aten::t"))));
  EXPECT_EQ(checked_nodes(graph({.around = event("model:aten::log"), .neighbours = 0})).size(), 1u);
}

}  // namespace
}  // namespace ttap
