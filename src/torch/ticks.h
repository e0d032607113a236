#pragma once

#include <cstdint>

#include "capture/process.h"

namespace ttap::torch_source {

// The steady clock in nanoseconds, for some 8 ns a reading where the processor counts evenly.
class Ticks {
 public:
  Ticks();
  uint64_t now_ns() const {
#if defined(__x86_64__)
    if (ns_per_tick_ > 0)
      return start_ns_ +
             static_cast<uint64_t>(static_cast<__uint128_t>(__builtin_ia32_rdtsc() - start_ticks_) * ns_per_tick_ >>
                                   kFraction);
#endif
    return steady_ns();
  }

 private:
  uint64_t start_ns_ = 0;
  uint64_t start_ticks_ = 0;
  uint64_t ns_per_tick_ = 0;  // with so many binary places; 0: not to be had
  static constexpr int kFraction = 32;
};

}  // namespace ttap::torch_source
