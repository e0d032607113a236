#include "cuda/kept_by_graphs.h"

#include <atomic>
#include <utility>

namespace ttap::cuda {
namespace {

struct Kept {
  std::shared_ptr<void> object;
  Kept* next = nullptr;
};

// A stack without a lock: the driver's thread must not wait for one of ours that is inside CUDA.
std::atomic<Kept*> put_aside = nullptr;

void put_it_aside(void* object) {
  auto* kept = static_cast<Kept*>(object);
  kept->next = put_aside.load(std::memory_order_relaxed);
  while (!put_aside.compare_exchange_weak(kept->next, kept, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

}  // namespace

Status keep_until_graph_is_gone(Stream stream, std::shared_ptr<void> object) {
  auto kept = std::make_unique<Kept>(Kept{std::move(object)});
  TTAP_TRY(keep_with_graph(stream, kept.get(), &put_it_aside));
  (void)kept.release();
  return {};
}

void free_what_graphs_released() {
  Kept* kept = put_aside.exchange(nullptr, std::memory_order_acquire);
  if (kept == nullptr) return;
  const WhileCapturing freeing;
  while (kept != nullptr) {
    const std::unique_ptr<Kept> gone(kept);
    kept = kept->next;
  }
}

}  // namespace ttap::cuda
