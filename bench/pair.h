#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <vector>

namespace ttap::bench {

inline double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Ours and the peer's work in turn, so that whatever else the machine does meets both; the medians in seconds. One
// round before is not counted.
struct Pair {
  double ours;
  double peer;
};
inline Pair measure_in_turn(int rounds, const std::function<void()>& ours, const std::function<void()>& peer) {
  std::vector<double> our_times, peer_times;
  for (int round = -1; round < rounds; ++round) {
    const double a = seconds(ours);
    const double b = seconds(peer);
    if (round < 0) continue;
    our_times.push_back(a);
    peer_times.push_back(b);
  }
  return {median(our_times), median(peer_times)};
}

}  // namespace ttap::bench
