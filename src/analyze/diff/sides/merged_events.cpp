#include "analyze/diff/sides/merged_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace ttap {
namespace {

std::vector<std::vector<std::string>> keys_of_events(const std::vector<const Side*>& sides) {
  std::vector<std::vector<std::string>> keys(sides.size());
  for (size_t side = 0; side < sides.size(); ++side)
    for (size_t i = 0; i < sides[side]->event_count(); ++i) {
      const EventRecord event = sides[side]->event(i);
      keys[side].push_back(fmt::format("{} {} {}", event.call, event.kind, event.name));
    }
  return keys;
}

}  // namespace

MergedEvents::MergedEvents(std::vector<const Side*> sides) : sides_(std::move(sides)), order_(keys_of_events(sides_)) {
  for (size_t entry = 0; entry < order_.size(); ++entry) {
    const auto members = order_.members(entry);
    const auto has = std::ranges::find_if(members, [](uint32_t index) { return index != MergedOrder::kNone; });
    places_.push_back({static_cast<uint32_t>(has - members.begin()), *has});
  }
}

EventRecord MergedEvents::event(size_t index) const {
  const Place& place = places_[index];
  EventRecord record = sides_[place.side]->event(place.event);
  record.parent = event_of(place.side, record.parent);
  if (record.parent != kNoEvent && record.parent >= index) record.parent = kNoEvent;  // the passes' orders cross
  record.forward = event_of(place.side, record.forward);
  return record;
}

UseRecord MergedEvents::use(size_t index, size_t use) const {
  return sides_[places_[index].side]->use(places_[index].event, use);
}

uint32_t MergedEvents::event_of(size_t side, uint32_t event) const {
  return event < sides_[side]->event_count() ? order_.entry_of(side, event) : kNoEvent;
}

void add_pass(PassInfo& info, const PassInfo& pass) {
  if (info.ending == Ending::kComplete) info.ending = pass.ending;
  if (info.problem.empty()) info.problem = pass.problem;
  info.being_written = info.being_written || pass.being_written;
  info.file_bytes += pass.file_bytes;
  info.readable_bytes += pass.readable_bytes;
  info.drops += pass.drops;
}

}  // namespace ttap
