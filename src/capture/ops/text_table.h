#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

namespace ttap {

using TextId = uint32_t;

// Texts by number; number 0 is the empty text. A text is kept once and stays where it is. Used by one thread at a time.
class TextTable {
 public:
  TextId intern(std::string_view text) {
    if (text.empty()) return 0;
    const auto found = ids_.find(text);
    if (found != ids_.end()) return found->second;
    texts_.emplace_back(text);
    bytes_ += text.size();
    const auto id = static_cast<TextId>(texts_.size());
    ids_.emplace(texts_.back(), id);
    return id;
  }
  std::string_view text(TextId id) const { return id == 0 ? std::string_view{} : std::string_view(texts_[id - 1]); }
  size_t size() const { return texts_.size(); }
  uint64_t bytes() const { return bytes_ + texts_.size() * (sizeof(std::string) + kPerEntry); }

 private:
  static constexpr uint64_t kPerEntry = 48;  // of the map, about

  std::deque<std::string> texts_;
  std::unordered_map<std::string_view, TextId> ids_;
  uint64_t bytes_ = 0;
};

}  // namespace ttap
