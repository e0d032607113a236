#pragma once

#include <chrono>
#include <cstdint>

namespace ttap {

// Whether large blobs go round the page cache. Writing into the cache costs a processor 0.6 s and more per GiB, which
// the model then lacks; writing round it costs almost nothing. But the cache takes a burst at once, and a slow disk
// makes whoever fills the staging memory wait. So by default blobs go directly for as long as the disk is fast. One for
// all segments of a recorder; used by one thread.
class DiskPace {
 public:
  enum class Rule : uint8_t { kWhileFast, kAlways };
  static constexpr double kFastBytesPerSecond = 0.5e9;
  explicit DiskPace(Rule rule) : rule_(rule) {}

  bool direct() const { return direct_; }

  // What was written directly, and how long the disk took.
  void took(uint64_t bytes, std::chrono::nanoseconds time) {
    bytes_ += bytes;
    time_ += time;
    if (bytes_ < kWindowBytes) return;
    const double seconds = std::chrono::duration<double>(time_).count();
    if (rule_ == Rule::kWhileFast && static_cast<double>(bytes_) < kFastBytesPerSecond * seconds) direct_ = false;
    bytes_ = 0;
    time_ = {};
  }
  // What went through the cache because the disk was slow. After a while it is asked again: perhaps it was only busy,
  // or the machine was.
  void left_to_cache(uint64_t bytes) {
    bytes_ += bytes;
    if (bytes_ < kRestBytes) return;
    direct_ = true;
    bytes_ = 0;
  }

  // Wide enough to forgive a hiccup of 0.2 s, small enough that a slow disk is known after one.
  static constexpr uint64_t kWindowBytes = uint64_t{128} << 20;
  static constexpr uint64_t kRestBytes = uint64_t{4} << 30;

 private:
  Rule rule_;
  bool direct_ = true;
  uint64_t bytes_ = 0;  // since direct_ was last looked at
  std::chrono::nanoseconds time_{0};
};

}  // namespace ttap
