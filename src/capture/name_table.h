#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "capture/filter.h"

namespace ttap {

// A name the program has used, with what the filter said of it.
struct NameEntry {
  NameEntry(std::string_view text, std::optional<Level> decision) : name(text), level(decision) {}

  const std::string name;
  const bool valid = is_valid_name(name);
  const std::optional<Level> level;  // nothing: not recorded

  // The number of this call within pass `pass`, from 1.
  uint32_t next_call(uint32_t pass);

 private:
  std::atomic<uint64_t> last_{0};  // pass + 1 in the high half, calls in the low
};

// Every name seen, each decided once. Entries never move and live as long as the table.
class NameTable {
 public:
  explicit NameTable(Filter filter) : filter_(std::move(filter)) {}

  NameEntry& find(std::string_view name);

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
  mutable std::shared_mutex mutex_;
  Filter filter_;
  std::unordered_map<std::string, std::unique_ptr<NameEntry>, Hash, std::equal_to<>> entries_;
};

}  // namespace ttap
