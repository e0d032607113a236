#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "fingerprint/stats_part.h"
#include "ttap/dtype.h"

namespace ttap {

// How often each byte occurs. All statistics of a one-byte format follow from it exactly, and it merges by adding.
class ByteHistogram {
 public:
  void add(const std::byte* data, size_t bytes);
  void merge(const ByteHistogram& other);
  StatsPart stats(DType dtype) const;

 private:
  std::array<uint64_t, 256> counts_ = {};
};

}  // namespace ttap
