#pragma once

#include <algorithm>
#include <cstdint>

#include "core/logical_copy.h"
#include "ttap/group.h"
#include "ttap/run.h"

namespace ttap::fuzz {

// Reads everything a pass gives, as the commands would, and holds it to what its records say.
inline void read_everything(const Pass& pass) {
  uint64_t sum = pass.info().metadata_json.size() + pass.info().notes.size();
  for (size_t i = 0; i < pass.event_count(); ++i) {
    const EventRecord event = pass.event(i);
    TTAP_CHECK(event.parent == kNoEvent || event.parent < i);
    TTAP_CHECK(event.forward == kNoEvent || event.forward < i);
    for (const auto text : {event.name, event.kind, event.stack, event.arguments, event.results, event.notes})
      for (const char c : text) sum += static_cast<unsigned char>(c);
    for (size_t j = 0; j < event.use_count; ++j) {
      const UseRecord use = pass.use(i, j);
      TTAP_CHECK(use.record == kNoNumber || use.record < pass.tensor_count());
      sum += use.role.size() + use.path.size();
    }
  }
  for (size_t i = 0; i < pass.tensor_count(); ++i) {
    const TensorRecord record = pass.tensor(i);
    TTAP_CHECK(record.event == kNoEvent || record.event < pass.event_count());
    sum += to_string(record.key()).size() + pass.find(record.key()).has_value() + has_values(pass, i);
    if (const auto view = pass.read(i); view.ok()) {
      TTAP_CHECK(record.has_bytes && view->dtype == record.dtype);
      TTAP_CHECK(std::ranges::equal(view->shape, record.shape));
      sum += fingerprint(*view).stats.zeros;
    }
    if (const auto values = read_values(pass, i); values.ok()) {
      TTAP_CHECK(std::ranges::equal(values->view.shape, record.shape));
      sum += fingerprint(values->view).stats.zeros;
    }
  }
  volatile uint64_t sink = sum;
  (void)sink;
}

}  // namespace ttap::fuzz
