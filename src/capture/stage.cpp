#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <optional>

#include "capture/recorder_impl.h"
#include "capture/tensor_copy.h"

// From capture() to a published record in the ring.
namespace ttap {
namespace {

constexpr uint64_t kUrgentBytes = 256 << 10;  // worth waking the writer at once

// Of a tensor in pieces: whole chunks where they fit, so that the crew can help.
uint64_t piece_bytes(uint64_t room) {
  const uint64_t unit = room < kChunkBytes ? kHashBlockBytes : kChunkBytes;
  return room / unit * unit;
}

}  // namespace

void Recorder::Impl::fill_texts(StagedTensor& staged, BodyWriter& body, const TensorView& tensor, const Place& place) {
  staged.shape = body.put(tensor.shape);
  staged.strides = is_contiguous(tensor) ? std::span<const int64_t>{} : body.put(tensor.strides);
  staged.role = body.put(place.role);
  staged.path = body.put(place.path);
  staged.device = body.put(place.device);
  staged.group = body.put(place.group);
}

Status Recorder::Impl::capture(std::string_view name, const TensorView& tensor, const Place& place) {
  if (fork_count().load() != forks_at_start_) return {};
  Later later(place);
  if (!alive()) return {};
  NameEntry& entry = names_.find(name);
  const std::optional<Level> level = entry.level();
  return level ? stage(entry, nullptr, *level, tensor, place, later) : Status{};
}

Status Recorder::Impl::capture(const Event& event, const TensorView& tensor, const Place& place) {
  if (fork_count().load() != forks_at_start_) return {};
  Later later(place);
  if (!alive() || !event.wanted()) return {};
  if (event.recorder != id) return Error{ErrorCode::kInvalidArgument, "the event is another recorder's"};
  return stage(*static_cast<NameEntry*>(const_cast<void*>(event.name)), &event, event.level, tensor, place, later);
}

Status Recorder::Impl::unsupported(WhichPass which, Error error) {
  count_drop(which, &DropCounts::unsupported);
  return error;
}

Status Recorder::Impl::count_unsupported(std::string_view name, std::string_view reason, WhichPass pass) {
  if (!alive()) return {};
  return unsupported(pass, {ErrorCode::kUnsupported, fmt::format("'{}' cannot be recorded: {}", name, reason)});
}

Status Recorder::Impl::late(const NameEntry& entry, uint32_t pass) const {
  return Error{.code = ErrorCode::kInvalidArgument,
               .message = fmt::format("'{}' was not recorded: pass {} is not open", entry.name, pass),
               .hint = "capture before the pass ends"};
}

Status Recorder::Impl::add_alias(std::string_view name, std::string_view alias) {
  for (const std::string_view each : {name, alias})
    if (!is_valid_name(each))
      return Error{.code = ErrorCode::kInvalidArgument,
                   .message = fmt::format("'{}' is not a name, so it has no alias and is none", each),
                   .hint = "a name is not empty and has no NUL"};
  if (alive()) names_.add_alias(name, alias);
  return {};
}

Status Recorder::Impl::stage(NameEntry& entry, const Event* event, Level level, const TensorView& tensor,
                             const Place& place, Later& later) {
  const WhichPass which = event == nullptr ? std::nullopt : std::optional(event->pass);
  level = level_at(place, level);
  const bool reads = level == Level::kFull || (keeps_fingerprint_only(level) && place.known == nullptr && !later);
  if (Status sound = reads ? validate(tensor) : validate_layout(tensor); !sound.ok())
    return unsupported(which,
                       {.code = sound.error().code,
                        .message = fmt::format("'{}' cannot be recorded: {}", entry.name, sound.error().message)});
  if (!entry.valid || !is_valid_role(place.role) || !is_valid_path(place.path))
    return unsupported(which, {.code = ErrorCode::kInvalidArgument,
                               .message = fmt::format("name '{}', role '{}' and path '{}' do not make a key",
                                                      entry.name, place.role, place.path),
                               .hint = "a name is not empty and has no NUL, a role is letters, digits and '_', a path "
                                       "comes from append_path()"});
  const LogicalCopy source(tensor);
  StagedTensor staged{.level = level,
                      .dtype = tensor.dtype,
                      .own_event = event == nullptr,
                      .name = &entry,
                      .aliases = entry.aliases(),
                      .call = 0,
                      .event = kNoEvent,
                      .value = place.value,
                      .thread = thread_number(),
                      .time_ns = 0,
                      .byte_count = byte_count(tensor),
                      .payload = {{}, true, {}},
                      .awaited = false,
                      .later = {},
                      .bytes = nullptr,
                      .bytes_lost = false,
                      .stable = place.stable && level == Level::kFull,
                      .elsewhere = kNoNumber,
                      .shape = {},
                      .strides = {},
                      .role = {},
                      .path = {},
                      .device = {},
                      .group = {}};
  const auto number = [&](StagedTensor& target, const OpenPasses::Found& found) {
    target.head.pass = found.number;
    target.time_ns = steady_ns() - found.pass->start_ns;
    target.call = event != nullptr ? event->call : found.pass->next_call(entry, false);
    target.event = event != nullptr ? event->number : found.pass->next_event();
  };
  const auto number_staged = [&](const OpenPasses::Found& found) { number(staged, found); };
  // Of a tensor without elements there is nothing to read, wherever it is.
  const bool on_gpu = place.gpu && staged.byte_count > 0;
  if (on_gpu && staged.level == Level::kFull)
    return stage_bytes_of_gpu(staged, entry, event, tensor, place, number_staged);
  if (staged.stable && sink_.stable_bytes().knows_size(staged.byte_count)) {
    TensorCopy look(crew_, tensor, source, staged.byte_count, true);
    look.take(staged.byte_count, nullptr);
    staged.payload.fingerprint = look.finish();
    staged.elsewhere =
        sink_.stable_bytes().find(staged.payload.fingerprint.hash, staged.byte_count).value_or(kNoNumber);
  }
  const bool copies = staged.level == Level::kFull && staged.elsewhere == kNoNumber;
  const uint64_t payload = copies ? staged.byte_count : 0;
  const size_t dims = tensor.shape.size_bytes();
  const uint64_t bytes =
      body_bytes(sizeof(StagedTensor),
                 {dims, dims, place.role.size(), place.path.size(), place.device.size(), place.group.size()}, payload);
  if (bytes > ring_->largest_body() && when_full_ == WhenFull::kBlock)
    return stage_in_pieces(staged, which, source, tensor, place, number);

  std::optional<TensorCopy> copy;
  if (copies) copy.emplace(crew_, tensor, source, staged.byte_count, keeps_sketch(staged.level));
  // Without a copy the tensor is read where it lies, before anything waits in the ring for it.
  if (keeps_fingerprint_only(staged.level)) {
    if (place.known != nullptr) {
      staged.payload.fingerprint = *place.known;
    } else if (later) {
      staged.awaited = true;
      staged.later = later.take();
    } else if (on_gpu) {
      if (Status launched = fingerprint_on_gpu(staged, tensor, *place.gpu); !launched.ok()) {
        if (launched.error().code == ErrorCode::kNoSpace) return refused(Refusal::kFull, staged, entry, event);
        return unsupported(which, std::move(launched).error());
      }
    } else {
      copy.emplace(crew_, tensor, source, staged.byte_count, keeps_sketch(staged.level));
      copy->take(staged.byte_count, nullptr);
      staged.payload.fingerprint = copy->finish();
    }
  }
  const auto [record, refusal] = reserve_in_pass(bytes, wait_policy(), which, number_staged);
  if (record == nullptr) {
    if (staged.later) cuda::ResultPool::of_process().abandon(staged.later);
    return refused(refusal, staged, entry, event);
  }
  BodyWriter body(record, sizeof(StagedTensor));
  fill_texts(staged, body, tensor, place);
  if (copies) {
    std::byte* target = body.align_to(payload_alignment(payload));
    copy->take(payload, target);
    staged.payload = {{target, payload}, true, copy->finish()};
  }
  new (record->body()) StagedTensor(staged);
  ring_->publish(record, payload >= kUrgentBytes);
  return {};
}

Status Recorder::Impl::refused(Refusal refusal, const StagedTensor& staged, NameEntry& entry, const Event* event) {
  if (refusal == Refusal::kClosed || !alive()) return {};
  const WhichPass which = event == nullptr ? std::nullopt : std::optional(event->pass);
  // The call happened: those after it keep their numbers.
  const auto number_lost = [&](const OpenPasses::Found& found) {
    if (event == nullptr) (void)found.pass->next_call(entry, false);
  };
  if (!count_drop(which, &DropCounts::staging_full, row_count(staged.aliases), number_lost)) return late(entry, *which);
  return Error{.code = ErrorCode::kNoSpace,
               .message = fmt::format("'{}' ({} bytes) was dropped: the staging memory is full", entry.name,
                                      staged.level == Level::kFull ? staged.byte_count : 0),
               .hint = "raise TTAP_STAGING_BYTES, or let capture wait (TTAP_WHEN_FULL=block)"};
}

Status Recorder::Impl::stage_in_pieces(const StagedTensor& first, WhichPass which, const LogicalCopy& source,
                                       const TensorView& tensor, const Place& place,
                                       FunctionRef<void(StagedTensor&, const OpenPasses::Found&)> number) {
  StagedTensor staged = first;
  const size_t dims = tensor.shape.size_bytes();
  const std::initializer_list<size_t> parts = {
      dims, dims, place.role.size(), place.path.size(), place.device.size(), place.group.size()};
  const uint64_t piece_limit = piece_bytes(ring_->largest_body() / 2);
  const uint64_t overhead = body_bytes(sizeof(StagedTensor), parts, piece_limit) - piece_limit;
  if (overhead + piece_limit > ring_->largest_body())
    return unsupported(which, {ErrorCode::kTooLarge,
                               fmt::format("'{}': its name and path do not fit the staging memory", first.name->name)});
  const uint64_t total = source.elements() * source.element_size();
  TensorCopy copy(crew_, tensor, source, piece_limit, keeps_sketch(staged.level));
  uint64_t done = 0;
  while (done == 0) {
    Refusal refusal = Refusal::kNone;
    {
      const StagingRing::Stream stream(*ring_);
      while (done < total) {
        const uint64_t size = std::min(piece_limit, total - done);
        const bool is_first = done == 0;
        const uint64_t bytes = is_first ? overhead + size : body_bytes(sizeof(StagedPiece), {}, size);
        // Nothing else is reserved while the stream is held, so no pass can end and no recorder stop between the first
        // piece and the last: only the first can be refused.
        Room room;
        if (is_first) {
          const auto number_first = [&](const OpenPasses::Found& found) { number(staged, found); };
          room = try_reserve_in_pass(bytes, StagingRing::Wait::kForRoom, which, number_first);
        } else {
          room.record = ring_->reserve(bytes, StagingRing::Wait::kForRoom, [] { return true; });
        }
        refusal = room.refusal;
        auto* record = room.record;
        if (record == nullptr) break;
        BodyWriter body(record, is_first ? sizeof(StagedTensor) : sizeof(StagedPiece));
        if (is_first) fill_texts(staged, body, tensor, place);
        std::byte* target = body.align_to(payload_alignment(size));
        copy.take(size, target);
        done += size;
        const bool last = done == total;
        const StagedPayload payload{{target, size}, last, last ? copy.finish() : Fingerprint{}};
        if (is_first) {
          staged.payload = payload;
          new (record->body()) StagedTensor(staged);
        } else {
          new (record->body()) StagedPiece{.head = {StagedKind::kPiece, staged.head.pass}, .payload = payload};
        }
        ring_->publish(record, true);
      }
    }
    // Never while the stream is held: who begins or ends a pass waits for the stream to end.
    if (refusal == Refusal::kClosed) break;
    if (refusal == Refusal::kNoPass && which) {
      count_drop(which, &DropCounts::late, row_count(staged.aliases));
      return late(*first.name, *which);
    }
    if (refusal == Refusal::kNoPass) begin_current(Beginning::kUnlessThereIsOne);
  }
  return {};
}

Event Recorder::Impl::begin_event(const EventInfo& info) {
  if (!alive()) return {};
  NameEntry& entry = info.level ? names_.find_chosen(info.name) : names_.find(info.name);
  const std::optional<Level> level = info.level ? info.level : entry.level();
  if (!level) return {};
  if (!entry.valid) {
    count_drop(info.pass, &DropCounts::events);
    return {};
  }
  StagedEvent staged{.name = &entry,
                     .number = 0,
                     .call = 0,
                     .parent = kNoEvent,
                     .thread = thread_number(),
                     .time_ns = 0,
                     .kind = {},
                     .stack = {}};
  Event event{.name = &entry, .recorder = id, .level = *level};
  const auto number_call = [&](const OpenPasses::Found& found) {
    event.call = staged.call = found.pass->next_call(entry, info.again);
    event.pass = staged.head.pass = found.number;
  };
  const uint64_t bytes = body_bytes(sizeof(StagedEvent), {info.kind.size(), info.stack.size()});
  const auto [record, refusal] = reserve_in_pass(bytes, wait_policy(), info.pass, [&](const OpenPasses::Found& found) {
    number_call(found);
    event.number = staged.number = found.pass->next_event();
    // An event of another pass is not in this file.
    staged.parent = info.parent.pass == found.number ? info.parent.number : kNoEvent;
    event.start_ns = steady_ns();
    staged.time_ns = event.start_ns - found.pass->start_ns;
  });
  if (record == nullptr) {
    if (refusal == Refusal::kClosed) return {};
    // Its tensors may still fit; they and later calls keep their numbers.
    count_drop(info.pass, &DropCounts::events, 1, number_call);
    return event.call > 0 ? event : Event{};
  }
  BodyWriter body(record, sizeof(StagedEvent));
  staged.kind = body.put(info.kind);
  staged.stack = body.put(info.stack);
  new (record->body()) StagedEvent(staged);
  ring_->publish(record, false);
  return event;
}

void Recorder::Impl::end_event(const Event& event, const CallInfo& call) {
  if (!alive() || !event.wanted() || event.number == kNoEvent || event.recorder != id) return;
  StagedCall staged{.head = {StagedKind::kCall, event.pass},
                    .event = event.number,
                    .forward = call.forward.pass == event.pass ? call.forward.number : kNoEvent,
                    .duration_ns = steady_ns() - event.start_ns,
                    .arguments = {},
                    .results = {},
                    .notes = {},
                    .uses = {}};
  uint64_t bytes = body_bytes(sizeof(StagedCall),
                              {call.arguments.size(), call.results.size(), call.notes.size(), call.uses.size_bytes()});
  for (const Use& use : call.uses) bytes += body_bytes(0, {use.role.size(), use.path.size()});
  const auto [record, refusal] = reserve_in_pass(bytes, wait_policy(), event.pass, [](const OpenPasses::Found&) {});
  if (record == nullptr) {
    if (refusal != Refusal::kClosed) count_drop(event.pass, &DropCounts::events);
    return;
  }
  BodyWriter body(record, sizeof(StagedCall));
  staged.arguments = body.put(call.arguments);
  staged.results = body.put(call.results);
  staged.notes = body.put(call.notes);
  const std::span<Use> uses = body.put(call.uses);
  for (Use& use : uses) {
    use.role = body.put(use.role);
    use.path = body.put(use.path);
  }
  staged.uses = uses;
  new (record->body()) StagedCall(staged);
  ring_->publish(record, false);
}

}  // namespace ttap
