#include "analyze/diff/sides/merged_order.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>

namespace ttap {

MergedOrder::MergedOrder(std::span<const std::vector<std::string>> lists) : lists_(lists.size()), entries_(lists_) {
  // A linked list while it grows. Its head stands before the first entry, and each row is that of the node before.
  std::vector<uint32_t> next = {kNone};
  uint32_t last = 0;
  std::vector<uint32_t> rows;
  std::unordered_map<std::string, uint32_t> nodes;
  for (size_t list = 0; list < lists_; ++list) {
    // What has nothing in common with the lists before, as the next stage of a pipeline, comes after them.
    const bool apart = std::ranges::none_of(lists[list], [&](const std::string& key) { return nodes.contains(key); });
    uint32_t previous = apart ? last : 0;
    for (size_t i = 0; i < lists[list].size(); ++i) {
      std::string key = lists[list][i];
      auto [found, is_new] = nodes.try_emplace(key, static_cast<uint32_t>(next.size()));
      while (!is_new && rows[(found->second - 1) * lists_ + list] != kNone) {
        key.push_back('\0');  // no key holds one
        std::tie(found, is_new) = nodes.try_emplace(key, static_cast<uint32_t>(next.size()));
      }
      const uint32_t node = found->second;
      if (is_new) {
        next.push_back(next[previous]);
        next[previous] = node;
        if (previous == last) last = node;
        rows.insert(rows.end(), lists_, kNone);
      }
      rows[(node - 1) * lists_ + list] = static_cast<uint32_t>(i);
      previous = node;
    }
    entries_[list].resize(lists[list].size());
  }
  members_.reserve(rows.size());
  for (uint32_t node = next[0]; node != kNone; node = next[node], ++size_) {
    const auto row = std::span(rows).subspan((node - 1) * lists_, lists_);
    for (size_t list = 0; list < lists_; ++list)
      if (row[list] != kNone) entries_[list][row[list]] = static_cast<uint32_t>(size_);
    members_.insert(members_.end(), row.begin(), row.end());
  }
}

}  // namespace ttap
