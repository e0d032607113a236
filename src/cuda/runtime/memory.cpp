#include "cuda/runtime/memory.h"

#include <atomic>
#include <cstring>

namespace ttap::cuda {
namespace {

struct Aside {
  std::byte* memory;
  int device;  // or kPinned
  Aside* next = nullptr;
};
constexpr int kPinned = -1;

// A stack without a lock: a thread of the driver's must not wait for one of ours that is inside CUDA.
std::atomic<Aside*> aside = nullptr;

void put_aside(std::byte* memory, int device) {
  auto* item = new Aside{memory, device};
  item->next = aside.load(std::memory_order_relaxed);
  while (!aside.compare_exchange_weak(item->next, item, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

}  // namespace

void FreeOnDevice::operator()(std::byte* memory) const { put_aside(memory, device); }
void FreePinned::operator()(std::byte* memory) const { put_aside(memory, kPinned); }

Result<DeviceMemory> device_memory(int device, size_t bytes) {
  const OnDevice on(device);
  TTAP_ASSIGN(void* memory, allocate_on_device(bytes));
  return DeviceMemory(static_cast<std::byte*>(memory), FreeOnDevice{device});
}

Result<PinnedMemory> pinned_memory(size_t bytes) {
  TTAP_ASSIGN(void* memory, allocate_pinned(bytes));
  std::memset(memory, 0, bytes);
  return PinnedMemory(static_cast<std::byte*>(memory));
}

std::atomic<int> captures_under_way = 0;
void capturing(int by) { captures_under_way.fetch_add(by, std::memory_order_relaxed); }

void free_memory_put_aside() {
  Aside* item = aside.exchange(nullptr, std::memory_order_acquire);
  while (item != nullptr) {
    const std::unique_ptr<Aside> freed(item);
    item = item->next;
    if (freed->device == kPinned) {
      free_pinned(freed->memory);
    } else {
      const OnDevice on(freed->device);
      free_on_device(freed->memory);
    }
  }
}

}  // namespace ttap::cuda
