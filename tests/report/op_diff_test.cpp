#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "report/diff/diff_report.h"
#include "report/log/call_text.h"
#include "scratch.h"
#include "ttap/recorder.h"
#include "written_text.h"

namespace ttap {
namespace {

// relu(x) + wave(x), as a trace records it.
void trace(const std::filesystem::path& path, const char* wave, float (*function)(float), Level level) {
  auto recorder = Recorder::create({.directory = path, .level = level}).value();
  recorder->begin_pass();
  const std::array<int64_t, 1> shape{3};
  const std::array<float, 3> x{0.5F, -1, 2};
  std::array<float, 3> relu{}, waved{}, sum{};
  for (size_t i = 0; i < x.size(); ++i) {
    relu[i] = std::max(x[i], 0.0F);
    waved[i] = function(x[i]);
    sum[i] = relu[i] + waved[i];
  }
  const auto call = [&](const char* name, std::vector<uint32_t> given, const std::array<float, 3>& made,
                        uint32_t value) {
    const Event event = recorder->begin_event(
        {.name = name, .stack = "train.py:3 in main\n/lib/python3/site-packages/torch/nn/f.py:9 in wave"});
    if (value == 2)
      recorder->capture(event, {x.data(), DType::kF32, shape, {}}, {.role = "in", .path = "/0", .value = 1});
    recorder->capture(event, {made.data(), DType::kF32, shape, {}}, {.value = value});
    std::vector<Use> uses;
    std::string arguments;
    const std::array paths{"/0", "/1"};
    for (size_t i = 0; i < given.size(); ++i) {
      uses.push_back({.role = "in", .path = paths[i], .value = given[i]});
      arguments += (i == 0 ? "%" : ", %") + std::to_string(i);
    }
    uses.push_back({.role = "out", .value = value});
    recorder->end_event(event, {.arguments = arguments, .results = "%" + std::to_string(given.size()), .uses = uses});
  };
  call("m:aten::relu", {1}, relu, 2);
  call(wave, {1}, waved, 3);
  call("m:aten::add.Tensor", {2, 3}, sum, 4);
  ASSERT_TRUE(recorder->close().ok());
}

class OpDiff : public ::testing::TestWithParam<Level> {
 protected:
  void SetUp() override {
    trace(
        scratch_ / "a", "m:aten::cos", [](float x) { return std::cos(x); }, GetParam());
    trace(
        scratch_ / "b", "m:aten::sin", [](float x) { return std::sin(x); }, GetParam());
    auto found = diff(scratch_ / "a", scratch_ / "b");
    ASSERT_TRUE(found.ok()) << found.error().describe();
    report_ = std::move(found).value();
  }
  ScratchDirectory scratch_;
  DiffReport report_;
};

TEST_P(OpDiff, BothOperatorsAreNamed) {
  EXPECT_EQ(verdict_sentence(report_), "diverged: m:aten::cos (in B m:aten::sin) introduced the error");
  EXPECT_EQ(evidence_lines(report_).front(), "its input agrees bit for bit");
}

TEST_P(OpDiff, TheTextShowsBothCallsAndTheProgramsOwnLine) {
  const std::string text = written([&](Output& out) { draw_diff(report_, {}, out); });
  EXPECT_NE(text.find("call in A  m:aten::cos(f32[3]) -> f32[3]"), std::string::npos) << text;
  EXPECT_NE(text.find("call in B  m:aten::sin(f32[3]) -> f32[3]"), std::string::npos) << text;
  EXPECT_NE(text.find("line in A  train.py:3 in main"), std::string::npos) << text;
}

TEST_P(OpDiff, TheJsonHasThem) {
  const auto json = nlohmann::json::parse(written([&](Output& out) { write_diff_json(report_, out); }));
  const auto& first = json["passes"][0]["tensors"][json["first"]["tensor"].get<size_t>()];
  EXPECT_EQ(first["key"], "m:aten::cos");
  EXPECT_EQ(first["key_b"], "m:aten::sin");
  EXPECT_EQ(first["matched"], "place");
  EXPECT_EQ(first["call_b"]["text"], "m:aten::sin(f32[3]) -> f32[3]");
  EXPECT_EQ(first["call_b"]["line"], "train.py:3 in main");
  EXPECT_EQ(json["first_unequal"], json["first"]);
}

INSTANTIATE_TEST_SUITE_P(Levels, OpDiff, ::testing::Values(Level::kFingerprint, Level::kFull));

TEST(UserLine, IsTheInnermostOfTheProgram) {
  EXPECT_EQ(user_line("a.py:1 in f\nb.py:2 in g\tx = y\n/x/site-packages/torch/nn/m.py:3 in h"), "b.py:2 in g: x = y");
  EXPECT_EQ(user_line("/x/site-packages/torch/nn/m.py:3 in h"), "/x/site-packages/torch/nn/m.py:3 in h");
  EXPECT_EQ(user_line(""), "");
}

}  // namespace
}  // namespace ttap
