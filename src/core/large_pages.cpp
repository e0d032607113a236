#include "core/large_pages.h"

#include <sys/mman.h>

#include <cstdint>

namespace ttap {
namespace {

constexpr uintptr_t kLargePage = 2 << 20;
// Below this the memory is likely to have been written before.
constexpr size_t kMuch = 8 << 20;

}  // namespace

void prefer_large_pages(void* data, size_t bytes) {
#if defined(MADV_HUGEPAGE)
  if (bytes < kMuch) return;
  // Only those that lie within: what is beside belongs to somebody else.
  const auto begin = (reinterpret_cast<uintptr_t>(data) + kLargePage - 1) / kLargePage * kLargePage;
  const auto end = (reinterpret_cast<uintptr_t>(data) + bytes) / kLargePage * kLargePage;
  (void)::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);  // a kernel that cannot costs speed only
#endif
}

}  // namespace ttap
