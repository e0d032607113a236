#pragma once

#include <cstddef>

#include "ttap/record.h"

namespace ttap {

// Whether an event says that the pass it stands in only warms up: tap.batch(dummy=True), or an engine's adapter.
bool says_warm_up(const EventRecord& event);

// Of a Pass or a Side: whether it only warms up. Its tensors may hold memory that nobody has written to.
template <class Source>
bool is_warm_up(const Source& source) {
  for (size_t i = 0; i < source.event_count(); ++i)
    if (const EventRecord event = source.event(i); event.kind == "batch") return says_warm_up(event);
  return false;
}

}  // namespace ttap
