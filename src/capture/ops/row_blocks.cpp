#include "capture/ops/row_blocks.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <new>

#include "core/round_up.h"

namespace ttap {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kFirstExtent = size_t{256} << 10;  // a short log should stay small

std::byte* map(size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return static_cast<std::byte*>(memory);
}

// The kernel gives huge pages only where they begin: what lies before and behind goes back.
std::byte* map_aligned(size_t bytes) {
  std::byte* const memory = map(bytes + kHugePage);
  const size_t before = round_up(reinterpret_cast<uintptr_t>(memory), kHugePage) - reinterpret_cast<uintptr_t>(memory);
  if (before > 0) ::munmap(memory, before);
  if (before < kHugePage) ::munmap(memory + before + bytes, kHugePage - before);
  return memory + before;
}

}  // namespace

RowMemory::~RowMemory() {
  for (const Extent& extent : extents_) ::munmap(extent.begin, extent.size);
}

std::byte* RowMemory::take(size_t bytes) {
  bytes = round_up(bytes, kPage);
  if (bytes > left_) {
    extents_.reserve(extents_.size() + 1);
    const bool first = extents_.empty();
    const size_t size = first ? std::max(bytes, kFirstExtent) : round_up(bytes, kHugePage);
    next_ = first ? map(size) : map_aligned(size);
    left_ = size;
    extents_.push_back({next_, size});
    if (!first) (void)::madvise(next_, size, MADV_HUGEPAGE);
  }
  std::byte* const taken = next_;
  next_ += bytes;
  left_ -= bytes;
#if defined(MADV_POPULATE_WRITE)
  (void)::madvise(taken, bytes, MADV_POPULATE_WRITE);  // a kernel that cannot only costs speed
#endif
  return taken;
}

}  // namespace ttap
