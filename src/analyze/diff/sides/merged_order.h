#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ttap {

// Several lists of keys as one: in the order of the first, and what only later lists have after what it follows there.
// A list that shares nothing with those before it follows them. A key that stands in a list twice is matched with the
// second of the others.
class MergedOrder {
 public:
  static constexpr uint32_t kNone = 0xFFFFFFFF;

  explicit MergedOrder(std::span<const std::vector<std::string>> lists);

  size_t size() const { return size_; }
  // Where the entry stands in each list; kNone in those that do not have it.
  std::span<const uint32_t> members(size_t entry) const { return std::span(members_).subspan(entry * lists_, lists_); }
  // The entry that an item of a list became.
  uint32_t entry_of(size_t list, size_t index) const { return entries_[list][index]; }

 private:
  size_t lists_;
  size_t size_ = 0;
  std::vector<uint32_t> members_;               // one row per entry
  std::vector<std::vector<uint32_t>> entries_;  // one list each
};

}  // namespace ttap
