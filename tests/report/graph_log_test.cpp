// Graphs in a log: headings, nodes with their operands, and what chooses them.
#include <gtest/gtest.h>

#include "recorded_graph.h"
#include "report/log/log.h"
#include "report/written_text.h"
#include "scratch.h"

namespace ttap {
namespace {

using test::RecordedGraph;

Pass recorded(const ScratchDirectory& scratch) {
  auto recorder = Recorder::create({.directory = scratch.path(), .rank = 0}).value();
  RecordedGraph graph(*recorder, recorder->begin_pass());
  graph.begin("graph_3f2a00000001", 2, "forward");
  const auto x = graph.placeholder("%x", {1, 2});
  const Event module = graph.begin_module("layers.0");
  const auto add = graph.node({.name = "%add_1",
                               .target = "aten.add.Tensor",
                               .in = {RecordedGraph::of(x)},
                               .literals = ", 1",
                               .module = "layers.0",
                               .parent = module},
                              {2, 3});
  graph.end_module(module, {2, 3});
  graph.nodes({.name = "%split", .target = "aten.split.Tensor", .in = {{.value = add, .path = "/input"}}}, {{2}, {3}});
  graph.end();
  TTAP_CHECK(recorder->close().ok());
  return Pass::open(recorder->rank_directory() / "pass00000.ttap").value();
}

std::string log_of(const Pass& pass, const LogOptions& options = {}) {
  return written([&](Output& out) { EXPECT_TRUE(draw_log(pass, options, out).ok()); });
}

TEST(GraphLog, ShowsNodesWithTheirOperandsBelowTheirModules) {
  const ScratchDirectory scratch;
  const std::string text = log_of(recorded(scratch));
  EXPECT_NE(text.find("[graph] graph_3f2a00000001 (aot forward, step 2)\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\n  %x = placeholder[x] -> f32[2]  # "), std::string::npos) << text;
  EXPECT_NE(text.find("\n  [nn.Mod] layers.0 -> "), std::string::npos) << text;
  EXPECT_NE(text.find("\n    %add_1 = aten.add.Tensor(%x, 1) -> f32[2]  # "), std::string::npos) << text;
  EXPECT_NE(text.find("\n  %split = aten.split.Tensor(input=%add_1) -> (f32[1], f32[1])  # "), std::string::npos)
      << text;
}

TEST(GraphLog, IsChosenByTargetAndModule) {
  const ScratchDirectory scratch;
  const Pass pass = recorded(scratch);
  const std::string by_target = log_of(pass, {.filter = "split\\.Tensor"});
  EXPECT_NE(by_target.find("%split"), std::string::npos);
  EXPECT_EQ(by_target.find("%add_1 ="), std::string::npos);
  const std::string by_module = log_of(pass, {.module = "layers.0"});
  EXPECT_NE(by_module.find("%add_1 ="), std::string::npos);
  EXPECT_EQ(by_module.find("%split"), std::string::npos);
  EXPECT_EQ(find_event(pass, "%add_1").value(), 3u);
}

}  // namespace
}  // namespace ttap
