#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "capture/filter.h"

namespace ttap {

using Aliases = std::vector<std::string>;

// A name the program has used, with what the filter said of it.
class NameEntry {
 public:
  NameEntry(std::string_view text, uint32_t dense_index) : name(text), index(dense_index) {}

  const std::string name;
  const uint32_t index;  // counts from 0 over the table: a place in an array
  const bool valid = is_valid_name(name);

  // Nothing: not recorded. Only of an entry that came from NameTable::find().
  std::optional<Level> level() const;
  // Null when there are none. A list never changes and lives as long as the entry: add_alias() makes a new one.
  const Aliases* aliases() const { return aliases_.load(std::memory_order_acquire); }

 private:
  friend class NameTable;
  enum class Verdict : uint8_t { kNotAsked, kRejected, kMeta, kFingerprint, kSketch, kFull };

  std::atomic<Verdict> verdict_{Verdict::kNotAsked};  // of the filter
  std::atomic<bool> chosen_by_source_{false};
  std::atomic<const Aliases*> aliases_{nullptr};
  std::vector<std::unique_ptr<const Aliases>> alias_lists_;  // the last is the valid one; guarded by the table
};

// Every name seen, each decided once. Entries never move and live as long as the table.
class NameTable {
 public:
  explicit NameTable(Filter filter) : filter_(std::move(filter)) {}

  // The filter is asked, once.
  NameEntry& find(std::string_view name);
  // The source has decided that it is recorded: the filter is not asked.
  NameEntry& find_chosen(std::string_view name);
  void add_alias(std::string_view name, std::string_view alias);

  struct Counts {
    uint64_t seen = 0;
    uint64_t recorded = 0;
    std::vector<std::pair<std::string, uint64_t>> patterns;
  };
  Counts counts() const;

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  NameEntry* find_existing(std::string_view name) const;
  NameEntry& find_or_add(std::string_view name);  // with the unique lock held

  mutable std::shared_mutex mutex_;
  Filter filter_;
  std::unordered_map<std::string, std::unique_ptr<NameEntry>, Hash, std::equal_to<>> entries_;
};

}  // namespace ttap
