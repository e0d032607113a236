#include <fmt/format.h>

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
}

Status Recorder::Impl::capture(std::string_view name, const TensorView& tensor, const Place& place) {
  if (!alive()) return {};
  NameEntry& entry = names_.find(name);
  return entry.level ? stage(entry, nullptr, tensor, place) : Status{};
}

Status Recorder::Impl::capture(const Event& event, const TensorView& tensor, const Place& place) {
  if (!alive() || !event.wanted()) return {};
  return stage(*static_cast<NameEntry*>(const_cast<void*>(event.name)), &event, tensor, place);
}

Status Recorder::Impl::unsupported(Error error) {
  unsupported_.fetch_add(1);
  return error;
}

Status Recorder::Impl::stage(NameEntry& entry, const Event* event, const TensorView& tensor, const Place& place) {
  if (Status sound = check(tensor); !sound.ok())
    return unsupported({.code = sound.error().code,
                        .message = fmt::format("'{}' cannot be recorded: {}", entry.name, sound.error().message)});
  if (!entry.valid || !is_valid_role(place.role) || !is_valid_path(place.path))
    return unsupported({.code = ErrorCode::kInvalidArgument,
                        .message = fmt::format("name '{}', role '{}' and path '{}' do not make a key", entry.name,
                                               place.role, place.path),
                        .hint = "a name is not empty and has no NUL, a role is letters, digits and '_', a path "
                                "comes from append_path()"});
  const LogicalCopy source(tensor);
  StagedTensor staged{.level = *entry.level,
                      .dtype = tensor.dtype,
                      .own_event = event == nullptr,
                      .name = &entry,
                      .call = 0,
                      .event = kNoEvent,
                      .thread = thread_number(),
                      .time_ns = 0,
                      .byte_count = byte_count(tensor),
                      .payload = {{}, true, {}},
                      .shape = {},
                      .strides = {},
                      .role = {},
                      .path = {},
                      .device = {}};
  const auto number = [&](StagedTensor& target) {
    target.time_ns = steady_ns() - pass_start_ns_;
    if (event == nullptr) {
      target.call = entry.next_call(pass_number_);
      target.event = next_event_++;
    } else {
      target.call = event->call;
      // An event of an earlier pass is not in this file.
      target.event = event->pass == pass_number_ ? event->number : kNoEvent;
    }
  };
  const uint64_t payload = staged.level == Level::kFull ? staged.byte_count : 0;
  const size_t dims = tensor.shape.size_bytes();
  const uint64_t bytes = body_bytes(sizeof(StagedTensor),
                                    {dims, dims, place.role.size(), place.path.size(), place.device.size()}, payload);
  if (bytes > ring_->largest_body() && when_full_ == WhenFull::kBlock)
    return stage_in_pieces(staged, source, tensor, place, number);

  std::optional<TensorCopy> copy;
  if (staged.level != Level::kMeta) copy.emplace(crew_, tensor, source, staged.byte_count);
  // Without a copy the tensor is read where it lies, before anything waits in the ring for it.
  if (staged.level == Level::kFingerprint) {
    copy->take(staged.byte_count, nullptr);
    staged.payload.fingerprint = copy->finish();
  }
  auto* record = reserve_in_pass(bytes, wait_policy(), [&] { number(staged); });
  if (record == nullptr) {
    if (!alive()) return {};
    staging_full_.fetch_add(1);
    // The call happened: those after it keep their numbers.
    if (event == nullptr) (void)entry.next_call(pass_number_);
    return Error{.code = ErrorCode::kNoSpace,
                 .message = fmt::format("'{}' ({} bytes) was dropped: the staging memory is full", entry.name, payload),
                 .hint = "raise TTAP_STAGING_BYTES, or let capture wait (TTAP_WHEN_FULL=block)"};
  }
  BodyWriter body(record, sizeof(StagedTensor));
  fill_texts(staged, body, tensor, place);
  if (staged.level == Level::kFull) {
    std::byte* target = body.align_to(payload_alignment(payload));
    copy->take(payload, target);
    staged.payload = {{target, payload}, true, copy->finish()};
  }
  new (record->body()) StagedTensor(staged);
  ring_->publish(record, payload >= kUrgentBytes);
  return {};
}

Status Recorder::Impl::stage_in_pieces(const StagedTensor& first, const LogicalCopy& source, const TensorView& tensor,
                                       const Place& place, FunctionRef<void(StagedTensor&)> number) {
  StagedTensor staged = first;
  const size_t dims = tensor.shape.size_bytes();
  const std::initializer_list<size_t> parts = {dims, dims, place.role.size(), place.path.size(), place.device.size()};
  const uint64_t piece_limit = piece_bytes(ring_->largest_body() / 2);
  const uint64_t overhead = body_bytes(sizeof(StagedTensor), parts, piece_limit) - piece_limit;
  if (overhead + piece_limit > ring_->largest_body())
    return unsupported(
        {ErrorCode::kTooLarge, fmt::format("'{}': its name and path do not fit the staging memory", first.name->name)});
  const uint64_t total = source.elements() * source.element_size();
  TensorCopy copy(crew_, tensor, source, piece_limit);
  uint64_t done = 0;
  while (done == 0) {
    bool no_pass = false;
    {
      const StagingRing::Stream stream(*ring_);
      while (done < total) {
        const uint64_t size = std::min(piece_limit, total - done);
        const bool is_first = done == 0;
        const uint64_t bytes = is_first ? overhead + size : body_bytes(sizeof(StagedPiece), {}, size);
        const auto number_first = [&] {
          if (is_first) number(staged);
        };
        // No pass can end while the stream is held, so only the first piece can find none open.
        auto* record = try_reserve_in_pass(bytes, StagingRing::Wait::kForRoom, number_first, no_pass);
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
          new (record->body()) StagedPiece{.payload = payload};
        }
        ring_->publish(record, true);
      }
    }
    if (done == 0 && !no_pass) break;  // closed
    if (no_pass) ensure_pass();
  }
  return {};
}

Event Recorder::Impl::begin_event(const EventInfo& info) {
  if (!alive()) return {};
  NameEntry& entry = names_.find(info.name);
  if (!entry.level) return {};
  if (!entry.valid) {
    events_dropped_.fetch_add(1);
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
  Event event{.name = &entry};
  const uint64_t bytes = body_bytes(sizeof(StagedEvent), {info.kind.size(), info.stack.size()});
  auto* record = reserve_in_pass(bytes, wait_policy(), [&] {
    event.number = staged.number = next_event_++;
    event.call = staged.call = entry.next_call(pass_number_);
    event.pass = pass_number_;
    staged.parent = info.parent.pass == pass_number_ ? info.parent.number : kNoEvent;
    staged.time_ns = steady_ns() - pass_start_ns_;
  });
  if (record == nullptr) {
    if (!alive()) return {};
    // Its tensors may still fit; they and later calls keep their numbers.
    events_dropped_.fetch_add(1);
    return {.call = entry.next_call(pass_number_), .pass = pass_number_, .name = &entry};
  }
  BodyWriter body(record, sizeof(StagedEvent));
  staged.kind = body.put(info.kind);
  staged.stack = body.put(info.stack);
  new (record->body()) StagedEvent(staged);
  ring_->publish(record, false);
  return event;
}

}  // namespace ttap
