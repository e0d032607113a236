#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ttap::format {

// Numbers the distinct byte strings of a segment while it is written: 0 is the empty string, the others count from 1
// in the order in which they are first seen, which is the order in the file.
class StringTable {
 public:
  uint32_t intern(std::string_view text);
  uint32_t intern(std::span<const int64_t> numbers) {
    return intern(std::string_view(reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes()));
  }

  // What was interned since the last commit(), as the payload of a kStrings frame, and how many they are.
  std::vector<std::byte> pending_payload() const;
  uint64_t pending_bytes() const { return pending_bytes_; }
  uint32_t pending_count() const { return static_cast<uint32_t>(order_.size() - committed_); }
  // After the frame was written.
  void commit() {
    committed_ = order_.size();
    pending_bytes_ = 0;
  }
  // After it could not be written: the pending numbers are given out again.
  void rollback();

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  std::unordered_map<std::string, uint32_t, Hash, std::equal_to<>> numbers_;
  std::vector<const std::string*> order_;  // keys of numbers_, which never move
  size_t committed_ = 0;
  uint64_t pending_bytes_ = 0;  // size of pending_payload()
};

}  // namespace ttap::format
