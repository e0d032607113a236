#include "analyze/check/warm_up.h"

#include "core/json.h"

namespace ttap {

bool says_warm_up(const EventRecord& event) {
  const Json notes = parse_json(event.notes, 100);
  return notes.is_object() && notes.value("dummy", false);
}

}  // namespace ttap
