#include "analyze/diff/match/names/call_neighbours.h"

#include "analyze/diff/match/call_kinds.h"

namespace ttap {

CallNeighbours::Calls::Calls(const Side& its_side) : side(its_side), place(its_side.event_count(), -1) {
  const CallKinds kinds(side);
  for (size_t i = 0; i < place.size(); ++i)
    if (side.event(i).kind == "module" && !kinds.inner[i] && !kinds.hands_on[i]) place[i] = count++;
}

int64_t CallNeighbours::Calls::of(uint32_t tensor) const {
  const uint32_t event = side.tensor(tensor).event;
  return event < place.size() ? place[event] : -1;
}

void CallNeighbours::find_matched(const Pairing& pairing) {
  const auto add = [&](const Match& match) {
    const int64_t a = a_.of(match.a), b = b_.of(match.b);
    if (a >= 0 && b >= 0) matched_.emplace(a, b);
  };
  for (size_t i = 0; i < pairing.count_a(); ++i)
    if (pairing.has_a(i)) add(pairing.of_a(i));
  for (const Match& match : pairing.more()) add(match);
}

double CallNeighbours::context(uint32_t a_tensor, uint32_t b_tensor) const {
  const int64_t a = a_.of(a_tensor), b = b_.of(b_tensor);
  if (a < 0 || b < 0) return 0;
  int agreeing = 0;
  for (const int64_t direction : {-1, 1})
    for (const int64_t far : {1, 2}) {
      const int64_t near_a = a + direction * far, near_b = b + direction;
      const auto ends = [](int64_t place, int64_t count) { return place < 0 || place >= count; };
      agreeing += matched_.contains({near_a, near_b}) || matched_.contains({near_a, near_b + direction}) ||
                  (ends(near_a, a_.count) && ends(b + direction * far, b_.count));
    }
  return agreeing / 4.0;
}

}  // namespace ttap
