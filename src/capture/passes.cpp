#include "capture/recorder_impl.h"

// Begin and end of passes, and the place of a record between them.
namespace ttap {

uint32_t Recorder::Impl::begin_current(Beginning beginning) {
  StagedBeginPass begin{.unix_ns = unix_ns()};
  send(begin, [&] {
    const std::optional<uint32_t> current = passes_.current();
    if (closed_ || (current && beginning == Beginning::kUnlessThereIsOne)) return false;
    if (current)
      begin.before = StagedEndPass{.head = {StagedKind::kEndPass, *current},
                                   .drops = passes_.close(*current).value_or(DropCounts{})};
    begin.head.pass = passes_.open_as_current(steady_ns());
    return true;
  });
  return begin.head.pass;
}

uint32_t Recorder::Impl::begin_pass() { return begin_current(Beginning::kEndTheCurrent); }

void Recorder::Impl::end_pass(Ending ending) {
  std::optional<uint32_t> current;
  ring_->locked([&] { current = passes_.current(); });
  if (current) close_pass(*current, ending);
}

uint32_t Recorder::Impl::open_pass() {
  StagedBeginPass begin{.unix_ns = unix_ns()};
  send(begin, [&] {
    if (!closed_) begin.head.pass = passes_.open(steady_ns());
    return !closed_;
  });
  return begin.head.pass;
}

void Recorder::Impl::close_pass(uint32_t number, Ending ending) {
  StagedEndPass end{.head = {StagedKind::kEndPass, number}, .ending = ending};
  send(end, [&] {
    const std::optional<DropCounts> drops = closed_ ? std::nullopt : passes_.close(number);
    end.drops = drops.value_or(DropCounts{});
    return drops.has_value();
  });
}

uint32_t Recorder::Impl::skip_pass() {
  uint32_t number = 0;
  ring_->locked([&] { number = passes_.skip(); });
  return number;
}

Recorder::Impl::Room Recorder::Impl::try_reserve_in_pass(uint64_t bytes, StagingRing::Wait wait, WhichPass which,
                                                         Numbering number) {
  Room room{.refusal = Refusal::kFull};
  room.record = ring_->reserve(bytes, wait, [&] {
    const OpenPasses::Found found = passes_.find(which);
    room.refusal = closed_ ? Refusal::kClosed : found.pass == nullptr ? Refusal::kNoPass : Refusal::kNone;
    if (room.refusal == Refusal::kNone) number(found);
    return room.refusal == Refusal::kNone;
  });
  if (room.record == nullptr && !alive()) room.refusal = Refusal::kClosed;
  return room;
}

Recorder::Impl::Room Recorder::Impl::reserve_in_pass(uint64_t bytes, StagingRing::Wait wait, WhichPass which,
                                                     Numbering number) {
  while (true) {
    const Room room = try_reserve_in_pass(bytes, wait, which, number);
    if (room.refusal != Refusal::kNoPass || which) return room;
    begin_current(Beginning::kUnlessThereIsOne);
  }
}

bool Recorder::Impl::count_drop(WhichPass which, uint64_t DropCounts::*cause, uint64_t count, Numbering on_open) {
  bool open = true;
  ring_->locked([&] {
    const OpenPasses::Found found = passes_.find(which);
    open = found.pass != nullptr || !which;
    passes_.count_drop(found, open ? cause : &DropCounts::late, count);
    if (found.pass != nullptr) on_open(found);
  });
  return open;
}

}  // namespace ttap
