#include "capture/name_table.h"

#include <algorithm>
#include <mutex>

namespace ttap {

uint32_t NameEntry::next_call(uint32_t pass) {
  const uint64_t tag = (uint64_t{pass} + 1) << 32;
  uint64_t last = last_.load(std::memory_order_relaxed);
  while (true) {
    const uint64_t next = (last & ~uint64_t{0xFFFFFFFF}) == tag ? last + 1 : tag + 1;
    if (last_.compare_exchange_weak(last, next, std::memory_order_relaxed)) return static_cast<uint32_t>(next);
  }
}

NameEntry& NameTable::find(std::string_view name) {
  {
    const std::shared_lock lock(mutex_);
    if (const auto found = entries_.find(name); found != entries_.end()) return *found->second;
  }
  const std::unique_lock lock(mutex_);
  if (const auto found = entries_.find(name); found != entries_.end()) return *found->second;
  auto entry = std::make_unique<NameEntry>(name, filter_.decide(name));
  return *entries_.emplace(std::string(name), std::move(entry)).first->second;
}

NameTable::Counts NameTable::counts() const {
  const std::shared_lock lock(mutex_);
  Counts counts;
  counts.seen = entries_.size();
  counts.recorded = static_cast<uint64_t>(
      std::ranges::count_if(entries_, [](const auto& entry) { return entry.second->level.has_value(); }));
  counts.patterns = filter_.matches();
  return counts;
}

}  // namespace ttap
