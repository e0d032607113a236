#include "report/log/event_tensors.h"

#include <algorithm>

namespace ttap {

EventTensors::EventTensors(const Pass& pass, Of which) {
  for (size_t i = 0; i < pass.tensor_count(); ++i) {
    const uint32_t event = pass.tensor(i).event;
    if (event < pass.event_count() && (which == Of::kEveryEvent || pass.event(event).use_count == 0))
      entries_.emplace_back(event, static_cast<uint32_t>(i));
  }
  if (!std::ranges::is_sorted(entries_)) std::ranges::sort(entries_);
}

std::span<const EventTensors::Entry> EventTensors::of(uint32_t event) const {
  // clang 14 does not compile equal_range of libstdc++ 12.
  return {std::ranges::lower_bound(entries_, event, {}, &Entry::first),
          std::ranges::upper_bound(entries_, event, {}, &Entry::first)};
}

}  // namespace ttap
