#include "analyze/diff/sides/setup.h"

#include <algorithm>

#include "analyze/ops/event_op.h"

namespace ttap {
namespace {

// The first call of a module; the number of events when there is none.
size_t first_forward(const Side& side) {
  size_t first = 0;
  while (first < side.event_count() && side.event(first).kind != "module") ++first;
  return first;
}

bool is_outermost_op(const Side& side, const EventRecord& event) {
  return is_call_of_operator(event) && event.parent >= side.event_count();
}

// The ops that made these records, and what those were made of.
std::vector<bool> makers_of(const Side& side, std::vector<uint32_t> records) {
  std::vector<bool> makers(side.event_count());
  while (!records.empty()) {
    const uint32_t event = side.tensor(records.back()).event;
    records.pop_back();
    if (event >= makers.size() || makers[event]) continue;
    makers[event] = true;
    for (uint32_t k = 0; k < side.event(event).use_count; ++k)
      if (const UseRecord use = side.use(event, k); use.role != "out" && use.record < side.tensor_count())
        records.push_back(use.record);
  }
  return makers;
}

}  // namespace

bool calls_modules(const Side& side) { return first_forward(side) < side.event_count(); }

bool has_setup(const Side& side) {
  const size_t first = first_forward(side);
  for (size_t i = 0; i < first; ++i)
    if (is_outermost_op(side, side.event(i))) return first < side.event_count();
  return false;
}

SideWithoutSetup::SideWithoutSetup(std::shared_ptr<const Side> side, const std::vector<uint32_t>& wanted)
    : side_(std::move(side)) {
  const size_t first = first_forward(*side_);
  const std::vector<bool> makers = makers_of(*side_, wanted);
  new_event_.assign(side_->event_count(), kNoEvent);
  for (uint32_t i = 0; i < new_event_.size(); ++i) {
    const EventRecord event = side_->event(i);
    if (i < first && !makers[i] && is_outermost_op(*side_, event)) continue;
    new_event_[i] = static_cast<uint32_t>(events_.size());
    events_.push_back(i);
  }
  list_tensors();
}

// In execution order: what the set-up made comes before the tensors of its first user.
void SideWithoutSetup::list_tensors() {
  std::vector<bool> made(side_->tensor_count());
  for (uint32_t i = 0; i < made.size(); ++i) made[i] = is_setup(side_->tensor(i).event);
  std::vector<Kept> given;  // in the order of the users
  std::vector<bool> seen(made.size());
  for (const uint32_t event : events_)
    for (uint32_t k = 0; k < side_->event(event).use_count; ++k) {
      const UseRecord use = side_->use(event, k);
      if (use.role != "in" || use.record >= made.size() || !made[use.record] || seen[use.record]) continue;
      seen[use.record] = true;
      given.push_back({use.record, event, use.path});
    }
  new_tensor_.assign(made.size(), kNoTensor);
  const auto add = [&](const Kept& kept) {
    new_tensor_[kept.tensor] = static_cast<uint32_t>(tensors_.size());
    tensors_.push_back(kept);
  };
  auto next = given.begin();
  for (uint32_t i = 0; i < made.size(); ++i) {
    if (made[i]) continue;
    const uint32_t event = side_->tensor(i).event;
    for (; next != given.end() && event < new_event_.size() && next->user <= event; ++next) add(*next);
    add({.tensor = i});
  }
  for (; next != given.end(); ++next) add(*next);
}

TensorRecord SideWithoutSetup::tensor(size_t index) const {
  const Kept& kept = tensors_[index];
  TensorRecord record = side_->tensor(kept.tensor);
  if (kept.user == kNoEvent) {
    if (record.event < new_event_.size()) record.event = new_event_[record.event];
    return record;
  }
  const EventRecord event = side_->event(kept.user);
  record.name = event.name;
  record.call = event.call;
  record.role = "in";
  record.path = kept.path;
  record.event = new_event_[kept.user];
  return record;
}

EventRecord SideWithoutSetup::event(size_t index) const {
  EventRecord event = side_->event(events_[index]);
  if (event.parent < new_event_.size()) event.parent = new_event_[event.parent];
  if (event.forward < new_event_.size()) event.forward = new_event_[event.forward];
  return event;
}

UseRecord SideWithoutSetup::use(size_t event, size_t index) const {
  UseRecord use = side_->use(events_[event], index);
  if (use.record < new_tensor_.size()) use.record = new_tensor_[use.record];
  return use;
}

}  // namespace ttap
