#include "format/string_table.h"

#include <cstring>

#include "format/layout.h"

namespace ttap::format {

uint32_t StringTable::intern(std::string_view text) {
  if (text.empty()) return 0;
  if (const auto found = numbers_.find(text); found != numbers_.end()) return found->second;
  const auto number = static_cast<uint32_t>(order_.size() + 1);
  const auto inserted = numbers_.emplace(std::string(text), number).first;
  order_.push_back(&inserted->first);
  pending_bytes_ += string_entry_bytes(text.size());
  return number;
}

std::vector<std::byte> StringTable::pending_payload() const {
  std::vector<std::byte> payload(pending_bytes_);
  std::byte* out = payload.data();
  for (size_t i = committed_; i < order_.size(); ++i) {
    const StringHeader header{static_cast<uint32_t>(order_[i]->size()), 0};
    std::memcpy(out, &header, sizeof header);
    std::memcpy(out + sizeof header, order_[i]->data(), order_[i]->size());
    out += string_entry_bytes(order_[i]->size());
  }
  return payload;
}

void StringTable::rollback() {
  while (order_.size() > committed_) {
    numbers_.erase(numbers_.find(*order_.back()));
    order_.pop_back();
  }
  pending_bytes_ = 0;
}

}  // namespace ttap::format
