#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

namespace ttap::cuda {

// For whoever looks again and again for what a device has done: at first often, then less so.
class Backoff {
 public:
  void wait() {
    std::this_thread::sleep_for(pause_);
    pause_ = std::min(pause_ * 2, kLongest);
  }

 private:
  static constexpr std::chrono::microseconds kLongest{200};
  std::chrono::microseconds pause_{5};
};

}  // namespace ttap::cuda
