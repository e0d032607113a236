#pragma once

#include <atomic>
#include <cstdint>

namespace ttap::cuda {

// What the blocks of a comparison put together, and what is counted over comparisons: in device memory, zeroed.
struct CompareState {
  unsigned long long differing = 0;
  unsigned long long not_first = 0;     // ~ of the first element that differs, so that the largest counts; 0: none
  unsigned long long largest_bits = 0;  // of a double that is never negative: its bits are ordered as it is
  unsigned int blocks_done = 0;
  uint64_t comparisons = 0;
  uint64_t failures = 0;
};

// In pinned memory, written by the device. `failures` is stored last: what is said of the first failure is there, and
// does not change any more, once it is not 0.
struct alignas(64) CompareReport {
  uint64_t comparisons = 0;
  uint64_t failures = 0;
  uint64_t failed_comparison = 0;  // its number, from 0
  uint64_t differing = 0;          // elements
  uint64_t first = 0;              // the first of them, in C order
  double largest = 0;
  uint64_t elements = 0;  // that were compared
  alignas(16) unsigned char actual[16] = {};
  alignas(16) unsigned char expected[16] = {};
};

inline uint64_t failures_of(const CompareReport& report) {
  return std::atomic_ref(const_cast<uint64_t&>(report.failures)).load(std::memory_order_acquire);
}
inline uint64_t comparisons_of(const CompareReport& report) {
  return std::atomic_ref(const_cast<uint64_t&>(report.comparisons)).load(std::memory_order_acquire);
}

}  // namespace ttap::cuda
