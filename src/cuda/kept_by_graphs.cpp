#include "cuda/kept_by_graphs.h"

#include <utility>

namespace ttap::cuda {
namespace {

struct Kept {
  std::shared_ptr<void> object;
  std::shared_ptr<std::atomic<bool>> gone;
  Kept* next = nullptr;
};

// A stack without a lock: the driver's thread must not wait for one of ours that is inside CUDA.
std::atomic<Kept*> released = nullptr;

void put_aside(void* object) {
  auto* kept = static_cast<Kept*>(object);
  if (kept->gone != nullptr) kept->gone->store(true, std::memory_order_release);
  kept->next = released.load(std::memory_order_relaxed);
  while (!released.compare_exchange_weak(kept->next, kept, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

}  // namespace

Status keep_until_graph_is_gone(Stream stream, std::shared_ptr<void> object, std::shared_ptr<std::atomic<bool>> gone) {
  auto kept = std::make_unique<Kept>(Kept{std::move(object), std::move(gone)});
  TTAP_TRY(keep_with_graph(stream, kept.get(), &put_aside));
  (void)kept.release();
  return {};
}

void free_what_was_put_aside() {
  if (is_capturing()) return;
  Kept* kept = released.exchange(nullptr, std::memory_order_acquire);
  while (kept != nullptr) {
    const std::unique_ptr<Kept> gone(kept);
    kept = kept->next;
  }
  free_memory_put_aside();
}

}  // namespace ttap::cuda
