#include "cuda/stream_scratch.h"

#include <fmt/format.h>

#include "cuda/kernels/launch.h"

namespace ttap::cuda {

StreamScratch& StreamScratch::of_process() {
  static auto* table = new StreamScratch;  // never destroyed: the driver may be gone before static objects are
  return *table;
}

Result<void*> StreamScratch::of(int device, Stream stream) {
  // By its number: the handle of a stream that was destroyed is given to another, whose work may overtake what is left
  // of the first.
  const std::pair key(device, stream_number(stream));
  const std::lock_guard lock(mutex_);
  if (const auto found = made_.find(key); found != made_.end()) return found->second.get();
  if (made_.size() >= kMost)
    return Error{.code = ErrorCode::kUnsupported,
                 .message = fmt::format("tensors came from more than {} CUDA streams", kMost),
                 .hint = "use streams again instead of making new ones"};
  const WhileCapturing allocating;
  TTAP_ASSIGN(DeviceMemory memory, device_memory(device, kScratchBytes));
  TTAP_TRY(set_to_zero(memory.get(), kScratchBytes, stream));
  return made_.emplace(key, std::move(memory)).first->second.get();
}

}  // namespace ttap::cuda
