// Records two passes of which the second refers to the first for a weight that did not change into the directory given,
// for readers in other languages and for tests/golden.
#include <cstdio>
#include <vector>

#include "ttap/recorder.h"

using namespace ttap;

namespace {

const std::vector<int64_t> kShape = {2, 2};
constexpr float kWeight[] = {0.5F, -1.0F, 0.25F, 1.5F};
constexpr float kBias[2][4] = {{1, 2, 3, 4}, {1, 2, 3, 5}};
constexpr float kOut[2][4] = {{6, 7, 8, 9}, {9, 8, 7, 6}};

TensorView view_of(const float* values) { return {values, DType::kF32, kShape, {}}; }

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  auto made = Recorder::create({.directory = argv[1], .rank = 0, .metadata_json = R"({"model":"stable"})"});
  if (!made.ok()) {
    std::fprintf(stderr, "%s\n", made.error().describe().c_str());
    return 2;
  }
  Recorder& recorder = **made;
  if (!recorder.add_alias("fc", "tied").ok()) return 1;
  for (int pass = 0; pass < 2; ++pass) {
    recorder.begin_pass();
    const Event module = recorder.begin_event({.name = "fc", .kind = "module"});
    recorder.capture(module, view_of(kWeight), {.role = "param", .path = "/weight", .stable = true});
    recorder.capture(module, view_of(kBias[pass]), {.role = "param", .path = "/bias", .stable = true});
    recorder.capture(module, view_of(kOut[pass]));
    recorder.end_event(module, {});
    recorder.end_pass();
    if (!recorder.flush().ok()) return 1;  // else the first pass may not have ended when the second is recorded
  }
  return recorder.close().ok() ? 0 : 1;
}
