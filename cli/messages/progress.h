#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace ttap::cli {

// One line on stderr that says how far long work has come. Shown only on a terminal, only once the work has taken a
// while, and wiped away at the end.
class Progress {
 public:
  // `total` in the unit of advance(): bytes, passes, …; 0 when it is not known.
  Progress(std::string label, uint64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void advance(uint64_t amount = 1) {
    done_ += amount;
    // Asking for the time costs more than most tensors do.
    if (enabled_ && (amount > 4096 || (++calls_ & 63) == 0 || total_ < 4096)) maybe_draw();
  }
  // Where the work itself counts.
  void set(uint64_t done, uint64_t total) {
    done_ = done;
    total_ = total;
    if (enabled_) maybe_draw();
  }
  // Before something else is printed.
  void wipe();

 private:
  using Clock = std::chrono::steady_clock;
  void maybe_draw();

  std::string label_;
  uint64_t total_;
  uint64_t done_ = 0;
  uint64_t calls_ = 0;
  bool enabled_;
  bool drawn_ = false;
  Clock::time_point next_;
};

}  // namespace ttap::cli
