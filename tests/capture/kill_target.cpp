// Records for ever into the directory given, until it is killed; with a number behind it, as many passes at a time.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "capture/kill_pattern.h"
#include "ttap/recorder.h"

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  auto recorder = ttap::Recorder::create({.directory = argv[1], .rank = 0, .staging_bytes = 1 << 20});
  if (!recorder.ok()) {
    std::fprintf(stderr, "%s\n", recorder.error().describe().c_str());
    return 2;
  }
  const size_t at_a_time = argc > 2 ? static_cast<size_t>(std::atoi(argv[2])) : 1;
  while (true) {
    std::vector<uint32_t> passes(at_a_time);
    for (uint32_t& pass : passes) pass = at_a_time == 1 ? (*recorder)->begin_pass() : (*recorder)->open_pass();
    for (uint32_t i = 0; i < ttap::kKillTensors; ++i)
      for (const uint32_t pass : passes) {
        const auto values = ttap::kill_values(pass, i);
        const int64_t shape[] = {static_cast<int64_t>(values.size())};
        const ttap::Event event = (*recorder)->begin_event({.name = ttap::kill_name(i), .pass = pass});
        (*recorder)->capture(event, {values.data(), ttap::DType::kU64, shape, {}});
      }
    for (const uint32_t pass : passes) (*recorder)->close_pass(pass);
  }
}
