// kill_target DIRECTORY PASSES SCALE: records for ever, so many passes at a time, until it is killed.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "capture/kill_pattern.h"
#include "ttap/recorder.h"

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const auto at_a_time = static_cast<size_t>(std::atoi(argv[2]));
  const auto scale = static_cast<uint32_t>(std::atoi(argv[3]));
  auto recorder = ttap::Recorder::create({.directory = argv[1], .rank = 0, .staging_bytes = uint64_t{scale} << 20});
  if (!recorder.ok()) {
    std::fprintf(stderr, "%s\n", recorder.error().describe().c_str());
    return 2;
  }
  while (true) {
    std::vector<uint32_t> passes(at_a_time);
    for (uint32_t& pass : passes) pass = at_a_time == 1 ? (*recorder)->begin_pass() : (*recorder)->open_pass();
    for (uint32_t i = 0; i < ttap::kKillTensors; ++i)
      for (const uint32_t pass : passes) {
        const auto values = ttap::kill_values(pass, i, scale);
        const int64_t shape[] = {static_cast<int64_t>(values.size())};
        const ttap::Event event = (*recorder)->begin_event({.name = ttap::kill_name(i), .pass = pass});
        (*recorder)->capture(event, {values.data(), ttap::DType::kU64, shape, {}});
      }
    for (const uint32_t pass : passes) (*recorder)->close_pass(pass);
  }
}
