// Records for ever into the directory given, until it is killed.
#include <cstdio>

#include "capture/kill_pattern.h"
#include "ttap/recorder.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  auto recorder = ttap::Recorder::create({.directory = argv[1], .rank = 0, .staging_bytes = 1 << 20});
  if (!recorder.ok()) {
    std::fprintf(stderr, "%s\n", recorder.error().describe().c_str());
    return 2;
  }
  while (true) {
    const uint32_t pass = (*recorder)->begin_pass();
    for (uint32_t i = 0; i < ttap::kKillTensors; ++i) {
      const auto values = ttap::kill_values(pass, i);
      const int64_t shape[] = {static_cast<int64_t>(values.size())};
      (*recorder)->capture(ttap::kill_name(i), {values.data(), ttap::DType::kU64, shape, {}});
    }
    (*recorder)->end_pass();
  }
}
