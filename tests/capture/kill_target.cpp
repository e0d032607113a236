// Records for ever into the directory given, at the scale given, until it is killed.
#include <cstdio>
#include <cstdlib>

#include "capture/kill_pattern.h"
#include "ttap/recorder.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const auto scale = static_cast<uint32_t>(std::atoi(argv[2]));
  auto recorder = ttap::Recorder::create({.directory = argv[1], .rank = 0, .staging_bytes = uint64_t{scale} << 20});
  if (!recorder.ok()) {
    std::fprintf(stderr, "%s\n", recorder.error().describe().c_str());
    return 2;
  }
  while (true) {
    const uint32_t pass = (*recorder)->begin_pass();
    for (uint32_t i = 0; i < ttap::kKillTensors; ++i) {
      const auto values = ttap::kill_values(pass, i, scale);
      const int64_t shape[] = {static_cast<int64_t>(values.size())};
      (*recorder)->capture(ttap::kill_name(i), {values.data(), ttap::DType::kU64, shape, {}});
    }
    (*recorder)->end_pass();
  }
}
