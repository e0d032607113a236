#include "capture/name_table.h"

#include <algorithm>
#include <mutex>

namespace ttap {

std::optional<Level> NameEntry::level() const {
  switch (verdict_.load(std::memory_order_relaxed)) {
    case Verdict::kMeta: return Level::kMeta;
    case Verdict::kFingerprint: return Level::kFingerprint;
    case Verdict::kSketch: return Level::kSketch;
    case Verdict::kFull: return Level::kFull;
    case Verdict::kRejected:
    case Verdict::kNotAsked: break;
  }
  return std::nullopt;
}

NameEntry* NameTable::find_existing(std::string_view name) const {
  const std::shared_lock lock(mutex_);
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : found->second.get();
}

NameEntry& NameTable::find_or_add(std::string_view name) {
  if (const auto found = entries_.find(name); found != entries_.end()) return *found->second;
  auto entry = std::make_unique<NameEntry>(name, static_cast<uint32_t>(entries_.size()));
  return *entries_.emplace(std::string(name), std::move(entry)).first->second;
}

NameEntry& NameTable::find(std::string_view name) {
  using Verdict = NameEntry::Verdict;
  if (NameEntry* entry = find_existing(name))
    if (entry->verdict_.load(std::memory_order_relaxed) != Verdict::kNotAsked) return *entry;
  const std::unique_lock lock(mutex_);
  NameEntry& entry = find_or_add(name);
  if (entry.verdict_ != Verdict::kNotAsked) return entry;
  const std::optional<Level> level = filter_.decide(name);
  entry.verdict_ = !level                          ? Verdict::kRejected
                   : *level == Level::kMeta        ? Verdict::kMeta
                   : *level == Level::kFingerprint ? Verdict::kFingerprint
                   : *level == Level::kSketch      ? Verdict::kSketch
                                                   : Verdict::kFull;
  return entry;
}

NameEntry& NameTable::find_chosen(std::string_view name) {
  NameEntry* entry = find_existing(name);
  if (entry == nullptr) {
    const std::unique_lock lock(mutex_);
    entry = &find_or_add(name);
  }
  if (!entry->chosen_by_source_.load(std::memory_order_relaxed)) entry->chosen_by_source_ = true;
  return *entry;
}

void NameTable::add_alias(std::string_view name, std::string_view alias) {
  if (alias == name) return;
  const std::unique_lock lock(mutex_);
  NameEntry& entry = find_or_add(name);
  const Aliases* before = entry.aliases();
  Aliases after = before == nullptr ? Aliases{} : *before;
  if (std::ranges::find(after, alias) != after.end()) return;
  after.emplace_back(alias);
  entry.alias_lists_.push_back(std::make_unique<const Aliases>(std::move(after)));
  entry.aliases_.store(entry.alias_lists_.back().get(), std::memory_order_release);
}

NameTable::Counts NameTable::counts() const {
  const std::shared_lock lock(mutex_);
  Counts counts;
  for (const auto& [name, entry] : entries_) {
    // A name of which only an alias is known has not been seen.
    const bool asked = entry->verdict_ != NameEntry::Verdict::kNotAsked;
    counts.seen += asked || entry->chosen_by_source_ ? 1 : 0;
    counts.recorded += entry->level() || entry->chosen_by_source_ ? 1 : 0;
  }
  counts.patterns = filter_.matches();
  return counts;
}

}  // namespace ttap
