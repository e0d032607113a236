#include "core/compare_tensors.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/element_difference.h"
#include "core/logical_copy.h"

namespace ttap {

Comparison compare_tensors(const TensorView& actual, const TensorView& expected, const Tolerance& tolerance) {
  constexpr uint64_t kAtOnce = 4096;
  const LogicalCopy ours(actual);
  const LogicalCopy theirs(expected);
  const size_t size = ours.element_size();
  const uint64_t count = std::min(ours.elements(), theirs.elements());
  std::vector<std::byte> a(std::min(count, kAtOnce) * size);
  std::vector<std::byte> b(a.size());
  Comparison found;
  for (uint64_t begin = 0; begin < count; begin += kAtOnce) {
    const uint64_t some = std::min(kAtOnce, count - begin);
    ours.copy(begin, some, a.data());
    theirs.copy(begin, some, b.data());
    for (uint64_t i = 0; i < some; ++i) {
      const ElementDifference difference =
          difference_of(actual.dtype, a.data() + i * size, b.data() + i * size, tolerance);
      if (difference.close) continue;
      found.largest = std::max(found.largest, difference.distance);
      if (found.differing++ > 0) continue;
      found.first = begin + i;
      std::memcpy(found.actual.data(), a.data() + i * size, size);
      std::memcpy(found.expected.data(), b.data() + i * size, size);
    }
  }
  return found;
}

}  // namespace ttap
