#include "format/value_index.h"

#include <algorithm>

#include "format/segment_view.h"

namespace ttap::format {

ValueIndex::ValueIndex(const SegmentView& view) {
  for (size_t i = 0; i < view.tensor_count(); ++i)
    if (const uint32_t value = view.tensor_row(i).value; value != 0)
      entries_.push_back({value, static_cast<uint32_t>(i)});
  if (!std::ranges::is_sorted(entries_)) std::ranges::sort(entries_);
  const auto same_value = [](const Entry& a, const Entry& b) { return a.value == b.value; };
  entries_.erase(std::unique(entries_.begin(), entries_.end(), same_value), entries_.end());
}

uint32_t ValueIndex::row_of(uint32_t value) const {
  if (entries_.empty() || value < entries_.front().value) return kNoNumber;
  // Values are counted up: without gaps it stands just here, with gaps before.
  const size_t latest = std::min<size_t>(value - entries_.front().value, entries_.size() - 1);
  if (entries_[latest].value == value) return entries_[latest].row;
  const auto end = entries_.begin() + static_cast<ptrdiff_t>(latest);
  const auto found = std::ranges::lower_bound(entries_.begin(), end, value, {}, &Entry::value);
  return found != end && found->value == value ? found->row : kNoNumber;
}

}  // namespace ttap::format
