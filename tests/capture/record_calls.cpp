// Records a module, its ops and one op of the backward into the directory given, for readers in other languages
// and for tests/golden.
#include <cstdio>
#include <vector>

#include "ttap/recorder.h"

using namespace ttap;

namespace {

const std::vector<int64_t> kShape = {2};
constexpr float kIn[] = {-1, 5};
constexpr float kRelu[] = {0, 5};
constexpr float kAdded[] = {2, 7};

TensorView view_of(const float* values) { return {values, DType::kF32, kShape, {}}; }

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  auto made = Recorder::create({.directory = argv[1], .rank = 0, .metadata_json = R"({"model":"calls"})"});
  if (!made.ok()) {
    std::fprintf(stderr, "%s\n", made.error().describe().c_str());
    return 2;
  }
  Recorder& recorder = **made;
  recorder.begin_pass();
  const Event module = recorder.begin_event({.name = "mlp", .kind = "module"});
  const Event relu = recorder.begin_event({.name = "mlp:aten::relu", .parent = module, .stack = "model.py:7 in f"});
  recorder.capture(relu, view_of(kIn), {.role = "in", .path = "/0", .value = 1});
  recorder.capture(relu, view_of(kRelu), {.value = 2});
  const Use of_relu[] = {{.path = "/0", .tensor = 0, .value = 1}, {.role = "out", .tensor = 1, .value = 2}};
  recorder.end_event(relu, {.arguments = "%0", .results = "%1", .uses = of_relu});

  const Event add = recorder.begin_event({.name = "mlp:aten::add_.Tensor", .parent = module});
  recorder.capture(add, view_of(kAdded), {.role = "after", .path = "/0", .value = 4});
  const Use of_add[] = {{.path = "/0", .tensor = 1, .value = 2, .written = true},
                        {.path = "/1", .tensor = 2},
                        {.role = "after", .path = "/0", .tensor = 1, .value = 4}};
  recorder.end_event(add, {.arguments = "%0, %1, alpha=2",
                           .results = "%2",
                           .notes = R"({"unread": {"/1": "sparse"}, "hook": {"peak": 7}})",
                           .uses = of_add});
  recorder.end_event(module, {});
  const Event backward = recorder.begin_event({.name = "mlp:backward:aten::threshold_backward"});
  recorder.end_event(backward, {.arguments = "'100%%'", .results = "None", .forward = relu});
  (void)recorder.begin_event({.name = "aten::raises"});
  return recorder.close().ok() ? 0 : 1;
}
