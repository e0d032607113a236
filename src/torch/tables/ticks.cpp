#include "torch/tables/ticks.h"

#include <fstream>
#include <string>

namespace ttap::torch_source {
namespace {

// The kernel says whether the counter is even and the same on every core: then it is its own clock.
bool counter_is_even() {
  std::ifstream file("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  std::string name;
  file >> name;
#if defined(__x86_64__)
  return name == "tsc";
#else
  return name == "arch_sys_counter";
#endif
}

// Measured over a millisecond, once per process: good to some 1e-4, which no duration of an operator needs better.
double measured_ns_per_tick() {
  static const double rate = [] {
    if (!counter_is_even()) return 0.0;
    const uint64_t ticks = Ticks::counter();
    const uint64_t begin = steady_ns();
    uint64_t end = begin;
    while (end - begin < 1000000) end = steady_ns();
    return static_cast<double>(end - begin) / static_cast<double>(Ticks::counter() - ticks);
  }();
  return rate;
}

}  // namespace

Ticks::Ticks()
    : ns_per_tick_(static_cast<uint64_t>(measured_ns_per_tick() * static_cast<double>(uint64_t{1} << kFraction))) {
  start_ticks_ = counter();
  start_ns_ = steady_ns();
}

}  // namespace ttap::torch_source
