// Records a quantized tensor of two names with its parts into the directory given, for readers in other languages and
// for tests/golden.
#include <cstdio>
#include <vector>

#include "ttap/group.h"
#include "ttap/recorder.h"

using namespace ttap;

namespace {

const std::vector<int64_t> kShape = {2, 2};
constexpr uint8_t kPayload[] = {0x38, 0xC0, 0x30, 0x44};  // 1, -2, 0.5, 3
constexpr float kScale = 0.5F;
constexpr float kValues[] = {0.5F, -1.0F, 0.25F, 1.5F};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  auto made = Recorder::create({.directory = argv[1], .rank = 0, .metadata_json = R"({"model":"groups"})"});
  if (!made.ok()) {
    std::fprintf(stderr, "%s\n", made.error().describe().c_str());
    return 2;
  }
  Recorder& recorder = **made;
  const std::string description =
      to_json(GroupDescription{.format = *quant_format("fp8_e4m3"), .parts = {"payload", "scale"}});
  if (!recorder.add_alias("fc", "tied").ok()) return 1;
  recorder.begin_pass();
  const Event module = recorder.begin_event({.name = "fc", .kind = "module"});
  recorder.capture(module, {kPayload, DType::kF8E4M3FN, kShape, {}}, {.role = "param", .path = "/weight/payload"});
  recorder.capture(module, {&kScale, DType::kF32, {}, {}}, {.role = "param", .path = "/weight/scale"});
  recorder.capture(module, {kValues, DType::kF32, kShape, {}},
                   {.role = "param", .path = "/weight", .group = description});
  recorder.end_event(module, {});
  return recorder.close().ok() ? 0 : 1;
}
