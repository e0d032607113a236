#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "ttap/run.h"

namespace ttap {

// The tensor records of each event, for events that do not name them by their uses.
class EventTensors {
 public:
  enum class Of : uint8_t { kEveryEvent, kEventsWithoutUses };
  EventTensors(const Pass& pass, Of which);

  using Entry = std::pair<uint32_t, uint32_t>;  // event, tensor
  std::span<const Entry> of(uint32_t event) const;

 private:
  std::vector<Entry> entries_;
};

}  // namespace ttap
