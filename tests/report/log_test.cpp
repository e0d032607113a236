#include "report/log/log.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "report/log/event_text.h"
#include "report/log/stack_text.h"
#include "sample_ops.h"
#include "scratch.h"
#include "written_text.h"

namespace ttap {
namespace {

using test::SampleOps;

// A pass of what `fill` calls, and its log.
class Log : public testing::Test {
 protected:
  template <class Fill>
  std::string log_of(Fill&& fill, const LogOptions& options = {}, Terminal terminal = {}) {
    SampleOps ops(scratch_.path(), passes_++);
    fill(ops);
    pass_.emplace(Pass::open(ops.finish()).value());
    return log(options, terminal);
  }
  std::string log(const LogOptions& options = {}, Terminal terminal = {}) {
    return written([&](Output& out) { EXPECT_TRUE(draw_log(*pass_, options, out).ok()); }, terminal);
  }
  std::string hash(size_t tensor) { return short_hash(pass_->tensor(tensor).fingerprint.hash); }

  const ScratchDirectory scratch_;
  std::optional<Pass> pass_;
  uint32_t passes_ = 0;
};

TEST_F(Log, AnOpShowsItsTensorsLiteralsAndWhatCameOfIt) {
  const std::string text = log_of([](SampleOps& ops) {
    ops.call({.name = "aten::add.Tensor",
              .arguments = "%0, %1, alpha=2, mode='50%%'",
              .results = "%2",
              .tensors = {{.path = "/0", .number = 2, .shape = {2, 2}},
                          {.path = "/1", .number = 1, .shape = {}, .values = {7}},
                          {.role = "out", .number = 3, .shape = {2, 2}, .values = {1, 2, 3, -4}}}});
  });
  EXPECT_EQ(text,
            "aten::add.Tensor(t$2: f32[2, 2], t$1: f32[], alpha=2, mode='50%') -> t$3: f32[2, 2]"
            "  # " +
                hash(2) + ", mean 0.5, max_abs 4\n");
}

TEST_F(Log, WithoutNumbersAndValuesItIsPlainT) {
  EXPECT_EQ(log_of([](SampleOps& ops) {
              ops.call({.name = "aten::relu",
                        .arguments = "%0, [%1, %2]",
                        .results = "(%3, None)",
                        .tensors = {{.path = "/0", .shape = {3}, .level = Level::kMeta},
                                    {.path = "/1/0", .recorded = false},
                                    {.path = "/1/1", .shape = {2}, .level = Level::kMeta, .device = "meta"},
                                    {.role = "out", .path = "/0", .shape = {3}, .level = Level::kMeta}}});
            }),
            "aten::relu(t: f32[3], [t, t: f32[2] meta]) -> (t: f32[3], None)\n");
}

TEST_F(Log, APercentSignThatStandsForNoTensorStays) {
  EXPECT_EQ(log_of([](SampleOps& ops) {
              ops.call({.name = "a::b", .arguments = "%0, %7, %-1, %99999999999999999999, %%0, %"});
            }),
            "a::b(%0, %7, %-1, %99999999999999999999, %0, %)\n");
}

TEST_F(Log, SeveralResultsAreToldByTheirPaths) {
  const std::string text = log_of([](SampleOps& ops) {
    ops.call({.name = "aten::max.dim",
              .results = "(%0, %1)",
              .tensors = {{.role = "out", .path = "/0", .shape = {1}, .values = {5}},
                          {.role = "out", .path = "/1", .shape = {1}, .values = {2}}}});
  });
  EXPECT_EQ(text, "aten::max.dim() -> (t: f32[1], t: f32[1])  # /0 " + hash(0) + ", mean 5, max_abs 5; /1 " + hash(1) +
                      ", mean 2, max_abs 2\n");
}

TEST_F(Log, AWrittenArgumentIsMarkedAndItsNewValueTold) {
  const std::string text = log_of([](SampleOps& ops) {
    ops.call({.name = "aten::_foreach_add_.Scalar",
              .arguments = "[%0], 1",
              .tensors = {{.path = "/0/0", .number = 1, .written = true, .shape = {1}, .values = {1}},
                          {.role = "after", .path = "/0/0", .number = 1, .shape = {1}, .values = {2}}}});
  });
  EXPECT_EQ(text, "aten::_foreach_add_.Scalar([t$1: f32[1]!], 1)  # after /0/0 " + hash(1) + ", mean 2, max_abs 2\n");
}

TEST_F(Log, AWrittenArgumentThatIsReturnedIsToldOnce) {
  const std::string text = log_of([](SampleOps& ops) {
    ops.call({.name = "aten::view", .results = "%0", .tensors = {{.role = "out", .shape = {1}, .values = {2}}}});
    const uint32_t value = ops.last_values[0];
    ops.call({.name = "aten::copy_",
              .arguments = "%0",
              .results = "%1",
              .tensors = {{.path = "/0", .written = true, .shape = {1}, .values = {1}},
                          {.role = "out", .same_as = value},
                          {.role = "after", .path = "/0", .same_as = value}}});
  });
  EXPECT_TRUE(text.ends_with(") -> t: f32[1]  # " + hash(0) + ", mean 2, max_abs 2\n")) << text;
}

TEST_F(Log, InputsAndStridesAreShownOnRequest) {
  const std::string text = log_of(
      [](SampleOps& ops) {
        ops.call({.name = "aten::t",
                  .arguments = "%0, %1",
                  .results = "%2",
                  .tensors = {{.path = "/0", .shape = {2, 3}, .strides = {1, 2}},
                              {.path = "/1", .recorded = false},
                              {.role = "out", .shape = {1}, .values = {1}}}});
      },
      {.inputs = true, .strides = true});
  EXPECT_EQ(text, "aten::t(t: f32[2, 3] strides [1, 2], t) -> t: f32[1]  # " + hash(1) +
                      ", mean 1, max_abs 1; in: " + hash(0) + ", -\n");
}

TEST_F(Log, NotesAreSaidInWords) {
  const std::string text = log_of([](SampleOps& ops) {
    ops.call({.name = "a::fake", .notes = R"({"fake": true})"});
    ops.call({.name = "a::sparse", .notes = R"({"unread": {"/0": "a sparse tensor"}})"});
    ops.call({.name = "c10d::allreduce_", .notes = R"({"group": "tp"})"});
    ops.call({.name = "a::hooked", .notes = R"({"hook": {"mem": "8.1 MB", "n": [1, true, null], "it's": 0.5}})"});
    ops.call({.name = "a::broken", .notes = "{"});
  });
  EXPECT_EQ(text,
            "a::fake()  # fake: no values\n"
            "a::sparse()  # /0 not read: a sparse tensor\n"
            "c10d::allreduce_()  # group tp\n"
            "a::hooked()  # {'mem': '8.1 MB', 'n': [1, True, None], 'it\\'s': 0.5}\n"
            "a::broken()  # notes that are no JSON object\n");
}

TEST_F(Log, ADTensorShowsItsPlacementsAndItsLocalOpsBelowIt) {
  constexpr std::string_view notes =
      R"j({"dtensor": {"/0": {"placements": ["S(0)", "R"], "mesh": [2, 2]}, "out": {"placements": ["R"]}}})j";
  const std::string text = log_of([&](SampleOps& ops) {
    const uint32_t op = ops.call({.name = "aten::mm",
                                  .arguments = "%0, %1",
                                  .results = "%2",
                                  .notes = notes,
                                  .tensors = {{.path = "/0", .number = 1, .shape = {4}, .level = Level::kMeta},
                                              {.path = "/1", .number = 2, .shape = {4}, .level = Level::kMeta},
                                              {.role = "out", .number = 3, .shape = {4}, .level = Level::kMeta}}});
    ops.call({.name = "aten::relu", .parent = op});
  });
  EXPECT_EQ(text,
            "aten::mm(dt$1: f32[4]|S(0)|R, t$2: f32[4]) -> dt$3: f32[4]|R  # mesh [2, 2]\n"
            "  aten::relu()\n");
}

TEST_F(Log, ModulesIndentWhatTheyCall) {
  const std::string text = log_of([](SampleOps& ops) {
    const uint32_t model = ops.call({.name = "model", .kind = "module"});
    const uint32_t layer = ops.call({.name = "model.layer", .kind = "module", .parent = model, .call = 2});
    ops.call({.name = "model.layer:aten::relu", .parent = layer});
    ops.end_module(layer, R"({"class": "ReLU"})");
    ops.call({.name = "model:aten::sum", .parent = model});
    ops.end_module(model);
    ops.call({.name = "aten::mean"});
    ops.call({.name = "elsewhere:aten::mean"});
  });
  EXPECT_EQ(text,
            "[nn.Mod] model\n"
            "  [nn.Mod] model.layer::call2 (ReLU)\n"
            "    aten::relu()\n"
            "  aten::sum()\n"
            "aten::mean()\n"
            "elsewhere:aten::mean()\n");
}

TEST_F(Log, ARecordingOfModulesShowsTheirTensors) {
  const std::string text = log_of([](SampleOps& ops) {
    ops.call({.name = "model.mlp",
              .kind = "module",
              .tensors = {{.path = "/0", .shape = {2}, .values = {1, 3}},
                          {.role = "out", .shape = {1}, .values = {2}},
                          {.role = "grad_out", .shape = {1}, .values = {1}}}});
  });
  EXPECT_EQ(text, "[nn.Mod] model.mlp(t: f32[2]) -> t: f32[1], grad_out=t: f32[1]  # " + hash(1) +
                      ", mean 2, max_abs 2; grad_out " + hash(2) + ", mean 1, max_abs 1\n");
}

TEST_F(Log, ParametersAreWhatACallWasGivenAndNotWhatCameOfIt) {
  const LogOptions with_inputs{.inputs = true};
  const std::string text = log_of(
      [](SampleOps& ops) {
        ops.call({.name = "fc",
                  .kind = "module",
                  .tensors = {{.role = "param", .path = "/weight", .shape = {1, 2}, .values = {5, 7}},
                              {.path = "/0", .shape = {2}, .values = {1, 3}},
                              {.role = "out", .shape = {1}, .values = {2}}}});
      },
      with_inputs);
  EXPECT_EQ(text, "[nn.Mod] fc(t: f32[2], param=t: f32[1, 2]) -> t: f32[1]  # " + hash(2) +
                      ", mean 2, max_abs 2; in: " + hash(1) + ", " + hash(0) + "\n");
}

TEST_F(Log, TheBackwardStandsUnderItsModules) {
  const std::string text = log_of([](SampleOps& ops) {
    ops.call({.name = "a.b:aten::mm"});
    ops.call({.name = "a.b:backward:aten::mm"});
    const uint32_t outer = ops.call({.name = "a.b:backward:aten::t"});
    ops.call({.name = "a.b:backward:aten::detach", .parent = outer});
    ops.call({.name = "a:backward:aten::mul.Tensor"});
    ops.call({.name = "backward:aten::sum"});
    ops.call({.name = "aten::add_"});
    ops.call({.name = "backward:aten::sum", .call = 2});
  });
  EXPECT_EQ(text,
            "a.b:aten::mm()\n"
            "[backward] a.b\n"
            "  aten::mm()\n"
            "  aten::t()\n"
            "    aten::detach()\n"
            "[backward] a\n"
            "  aten::mul.Tensor()\n"
            "[backward]\n"
            "  aten::sum()\n"
            "aten::add_()\n"
            "[backward]\n"
            "  aten::sum()\n");
}

TEST_F(Log, AKernelShowsItsBuffersBeforeAndAfter) {
  const std::string text = log_of([](SampleOps& ops) {
    const uint32_t module = ops.call({.name = "m", .kind = "module"});
    ops.call({.name = "m:triton::poi_fused.0",
              .kind = "kernel",
              .parent = module,
              .arguments = "in_ptr0=%0, out_ptr0=%1, xnumel=1",
              .tensors = {{.path = "/in_ptr0", .shape = {1}, .values = {1}},
                          {.path = "/out_ptr0", .written = true, .shape = {1}, .values = {2}},
                          {.role = "after", .path = "/out_ptr0", .shape = {1}, .values = {3}}}});
  });
  EXPECT_EQ(text,
            "[nn.Mod] m\n"
            "  [triton] poi_fused.0(in_ptr0=t: f32[1], out_ptr0=t: f32[1]!, xnumel=1)\n"
            "    # before: in_ptr0 " +
                hash(0) + ", mean 1, max_abs 1; out_ptr0 " + hash(1) +
                ", mean 2, max_abs 2\n"
                "    # after:  out_ptr0 " +
                hash(2) + ", mean 3, max_abs 3\n");
}

TEST_F(Log, ACallThatDidNotReturnSaysSoWhereOthersOfItsKindDo) {
  EXPECT_EQ(log_of([](SampleOps& ops) {
              ops.call({.name = "model", .kind = "module"});  // of a source that never tells
              ops.call({.name = "aten::relu"});
              ops.call({.name = "aten::mm", .returns = false});
            }),
            "[nn.Mod] model\n"
            "aten::relu()\n"
            "aten::mm  # did not return\n");
}

TEST_F(Log, AnotherThreadIsMarked) {
  EXPECT_EQ(log_of([](SampleOps& ops) {
              ops.call({.name = "a::one", .thread = 1});
              ops.call({.name = "a::two", .thread = 2});
              ops.call({.name = "a::three", .thread = 2});
              ops.call({.name = "a::four", .thread = 1});
            }),
            "a::one()\n[thread 2]\na::two()\na::three()\n[thread 1]\na::four()\n");
}

TEST_F(Log, WhatIsNotFiniteIsRedAndWhatIsNotPlainIsEscaped) {
  const auto fill = [](SampleOps& ops) {
    ops.call({.name = "aten::log",
              .arguments = "'\x1b[31m\n'",
              .results = "%0",
              .tensors = {{.role = "out", .shape = {2}, .values = {NAN, 1}}}});
  };
  const std::string plain = log_of(fill);
  EXPECT_EQ(plain, "aten::log('%1B[31m%0A') -> t: f32[2]  # " + hash(0) + ", mean 1, max_abs 1, 1 NaN\n");
  EXPECT_NE(log({}, {.color = true}).find("\x1b[1;31m1 NaN\x1b[0m"), std::string::npos);
}

TEST_F(Log, AFilterKeepsWhatTheMatchesRanIn) {
  const auto fill = [](SampleOps& ops) {
    const uint32_t a = ops.call({.name = "a", .kind = "module"});
    ops.call({.name = "a:aten::relu", .parent = a});
    const uint32_t b = ops.call({.name = "a.b", .kind = "module", .parent = a});
    ops.call({.name = "a.b:aten::mm", .parent = b});
    ops.call({.name = "ab:aten::mm"});
  };
  EXPECT_EQ(log_of(fill, {.filter = "aten::mm$"}),
            "[nn.Mod] a\n"
            "  [nn.Mod] a.b\n"
            "    aten::mm()\n"
            "ab:aten::mm()\n");
  EXPECT_EQ(log({.module = "a.b"}), "[nn.Mod] a\n  [nn.Mod] a.b\n    aten::mm()\n");
  EXPECT_EQ(log({.filter = "relu", .module = "a"}), "[nn.Mod] a\n  aten::relu()\n");
  EXPECT_EQ(log({.filter = "nothing"}), "no event matches\n");
  Output nowhere(-1, {});
  EXPECT_EQ(draw_log(*pass_, {.filter = "("}, nowhere).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(Log, TheNeighbourhoodOfAnEventIsMarked) {
  log_of([](SampleOps& ops) {
    const uint32_t a = ops.call({.name = "a", .kind = "module"});
    for (uint32_t i = 1; i <= 5; ++i) ops.call({.name = "a:aten::relu", .parent = a, .call = i});
  });
  EXPECT_EQ(*find_event(*pass_, "a:aten::relu::call3"), 3u);
  EXPECT_EQ(log({.around = 3, .neighbours = 1, .keys = true}),
            "  [nn.Mod] a  # key a\n"
            "    aten::relu()  # key a:aten::relu::call2\n"
            ">   aten::relu()  # key a:aten::relu::call3\n"
            "    aten::relu()  # key a:aten::relu::call4\n");
}

TEST_F(Log, AnEventIsFoundByItsKeyOrThatOfATensorOfIt) {
  log_of([](SampleOps& ops) {
    ops.call(
        {.name = "model.layer:aten::mm", .tensors = {{.path = "/0", .shape = {1}}, {.role = "out", .shape = {1}}}});
    ops.call({.name = "aten::view"});
  });
  EXPECT_EQ(*find_event(*pass_, "model.layer:aten::mm"), 0u);
  EXPECT_EQ(*find_event(*pass_, "model.layer:aten::mm@in/0"), 0u);
  EXPECT_EQ(*find_event(*pass_, "aten::view"), 1u);
  const auto missing = find_event(*pass_, "model.layers:aten::mm");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_NE(missing.error().hint.find("did you mean model.layer:aten::mm"), std::string::npos) << missing.error().hint;
}

TEST_F(Log, StacksShowTheProgramsFramesAndOnlyWhatIsNew) {
  const auto fill = [](SampleOps& ops) {
    const std::string torch = "\n/x/site-packages/torch/nn/modules/module.py:1 in _call_impl";
    const std::string outer = "run.py:3 in main\tmodel(x)" + torch;
    const uint32_t mm = ops.call({.name = "a::mm", .stack = outer + "\nmodel.py:7 in forward\tx @ w" + torch});
    ops.call({.name = "a::t", .stack = outer + "\nmodel.py:7 in forward\tx @ w"});
    ops.call({.name = "a::relu", .stack = outer + "\nmodel.py:8 in forward"});
    ops.call({.name = "a::sum", .stack = "run.py:3 in main\tmodel(x)"});
    ops.call({.name = "backward:a::mm", .stack = "run.py:4 in main", .forward = mm});
    ops.call({.name = "backward:a::detach", .stack = "run.py:4 in main"});
    ops.call({.name = "backward:a::add_", .stack = "run.py:4 in main"});
    ops.call({.name = "backward:a::t", .stack = "run.py:4 in main", .forward = mm});
  };
  EXPECT_EQ(log_of(fill, {.stack = StackFrames::kUser}),
            "# File: run.py:3 in main, code: model(x)\n"
            "# File: model.py:7 in forward, code: x @ w\n"
            "a::mm()\n"
            "a::t()\n"
            "# File: model.py:8 in forward\n"
            "a::relu()\n"
            "# File: run.py:3 in main, code: model(x)\n"
            "a::sum()\n"
            "[backward]\n"
            "  # File: run.py:4 in main\n"
            "  # Forward: run.py:3 in main, code: model(x)\n"
            "  # Forward: model.py:7 in forward, code: x @ w\n"
            "  a::mm()\n"
            "  # Forward: none\n"
            "  a::detach()\n"
            "  a::add_()\n"
            "  # Forward: run.py:3 in main, code: model(x)\n"
            "  # Forward: model.py:7 in forward, code: x @ w\n"
            "  a::t()\n");
  const std::string all = log({.stack = StackFrames::kAll});
  EXPECT_NE(all.find("# File: /x/site-packages/torch/nn/modules/module.py:1 in _call_impl\n"), std::string::npos);
}

TEST_F(Log, ARecordingOfModulesHasStacksToo) {
  EXPECT_EQ(log_of([](SampleOps& ops) { ops.call({.name = "mlp", .kind = "module", .stack = "run.py:3 in main"}); },
                   {.stack = StackFrames::kUser}),
            "# File: run.py:3 in main\n[nn.Mod] mlp\n");
}

TEST(UserFrame, IsNoneOfPyTorchTensorTapAndPython) {
  for (const char* frame :
       {"/x/site-packages/torch/_tensor.py:1 in f", "/src/pytorch/torch/nn/functional.py:2 in relu",
        "/src/pytorch/torch/nn/functional.py:2 in relu\tx in a/torch/b",
        "/src/python/tensortap/modules/taps.py:3 in f\ta / b in c", "/x/dist-packages/tensortap/modules/taps.py:3 in f",
        "/src/python/tensortap/tracing.py:3 in f", "/src/tensortap/launch/sitecustomize.py:1 in f",
        "<frozen runpy>:88 in _run_code"})
    EXPECT_FALSE(is_user_frame(frame)) << frame;
  for (const char* frame : {"train.py:1 in main", "/home/me/torch/train.py:1 in f", "/home/me/torch/models/a.py:1 in f",
                            "/home/me/tensortap/examples/python/a.py:1 in f", "<stdin>:1 in <module>",
                            "/x/site-packages/transformers/models/bert/modeling_bert.py:1 in forward"})
    EXPECT_TRUE(is_user_frame(frame)) << frame;
}

TEST_F(Log, AnEmptyPassSaysSo) {
  EXPECT_EQ(log_of([](SampleOps&) {}), "nothing was recorded in this pass\n");
}

}  // namespace
}  // namespace ttap
