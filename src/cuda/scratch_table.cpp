#include "cuda/scratch_table.h"

#include <cstdint>
#include <map>
#include <mutex>
#include <tuple>

#include "cuda/kernels/launch.h"

namespace ttap::cuda {

Result<DeviceMemory> zeroed_device_memory(int device, size_t bytes) {
  const OnDevice on(device);
  const WhileCapturing allocating;
  TTAP_ASSIGN(DeviceMemory memory, device_memory(device, bytes));
  // On a stream of our own: the caller's may be under capture.
  TTAP_ASSIGN(const Stream stream, make_stream());
  Status cleared = set_to_zero(memory.get(), bytes, stream);
  if (cleared.ok()) cleared = synchronize(stream);
  destroy_stream(stream);
  TTAP_TRY(std::move(cleared));
  return memory;
}

Result<std::shared_ptr<SharedScratch>> scratch_for(int device, Stream stream) {
  // By the stream's number, since its handle may be another's while its work still runs. Where a stream is captured
  // CUDA ends that when it is asked for its number: handles of one capture are those of streams that are all still
  // there.
  using Key = std::tuple<int, uint64_t, uint64_t>;
  static std::mutex mutex;
  static auto* table = new std::map<Key, std::weak_ptr<SharedScratch>>;  // outlives whatever else is static

  const uint64_t capture = capture_number(stream);
  const Key key{device, capture != 0 ? reinterpret_cast<uintptr_t>(stream) : stream_number(stream), capture};
  const std::lock_guard lock(mutex);
  if (const auto found = table->find(key); found != table->end())
    if (auto scratch = found->second.lock()) return scratch;
  std::erase_if(*table, [](const auto& entry) { return entry.second.expired(); });
  auto scratch = std::make_shared<SharedScratch>();
  TTAP_ASSIGN(scratch->memory, zeroed_device_memory(device, kScratchBytes));
  (*table)[key] = scratch;
  return scratch;
}

}  // namespace ttap::cuda
