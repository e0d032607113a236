#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "cuda/kernels/launch.h"

namespace ttap::cuda {

// What the publishing kernel does, by the calling thread; `pause` is called between two looks at a full ring.
template <class Pause>
void publish_on_host(const PublishJob& job, const Pause& pause) {
  const uint64_t index = job.state->next;
  const auto is_open = [&] { return std::atomic_ref(job.control->open).load() != 0; };
  const auto has_room = [&] { return index < std::atomic_ref(job.control->released).load() + job.capacity; };
  while (is_open() && job.control->waits != 0 && !has_room()) pause();
  if (!is_open()) {
    ++std::atomic_ref(job.control->skipped);
    return;
  }
  std::byte* entry = job.entries + index % job.capacity * job.entry_bytes;
  auto* head = reinterpret_cast<EntryHead*>(entry);
  std::atomic_ref(head->begun).store(index + 1);
  for (uint32_t i = 0; i < job.segment_count; ++i)
    std::memcpy(entry + sizeof(EntryHead) + job.segments[i].to, job.segments[i].from, job.segments[i].bytes);
  std::atomic_ref(head->ended).store(index + 1);
  std::atomic_ref(job.control->published).store(index + 1);
  job.state->next = index + 1;
}

}  // namespace ttap::cuda
