#pragma once

#include <cstdint>

#include "capture/process.h"

namespace ttap::torch_source {

// The steady clock in nanoseconds, read from the processor's counter where that counts evenly: cheaper than a call.
class Ticks {
 public:
  Ticks();
  uint64_t now_ns() const {
    if (ns_per_tick_ == 0) return steady_ns();
    return start_ns_ +
           static_cast<uint64_t>(static_cast<__uint128_t>(counter() - start_ticks_) * ns_per_tick_ >> kFraction);
  }

  // The processor's; not in order with the instructions around it.
  static uint64_t counter() {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return 0;
#endif
  }

 private:
  uint64_t start_ns_ = 0;
  uint64_t start_ticks_ = 0;
  uint64_t ns_per_tick_ = 0;  // with so many binary places; 0: not to be had
  static constexpr int kFraction = 32;
};

}  // namespace ttap::torch_source
