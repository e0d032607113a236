#include "analyze/diff/match/call_kinds.h"

#include <unordered_set>

namespace ttap {

CallKinds::CallKinds(const Side& side) : inner(side.event_count()), hands_on(side.event_count()) {
  for (size_t i = 0; i < side.event_count(); ++i)
    if (const EventRecord event = side.event(i); event.kind == "module" && event.parent < inner.size())
      inner[event.parent] = true;
  std::unordered_set<Hash128> seen;
  std::vector<bool> computes(side.event_count());
  for (size_t i = 0; i < side.tensor_count(); ++i) {
    const TensorRecord record = side.tensor(i);
    const bool is_new = !record.has_fingerprint || seen.insert(record.fingerprint.hash).second;
    if (record.role != "out" || record.event >= computes.size()) continue;
    hands_on[record.event] = true;
    if (is_new) computes[record.event] = true;
  }
  for (size_t i = 0; i < computes.size(); ++i)
    if (computes[i]) hands_on[i] = false;
}

}  // namespace ttap
