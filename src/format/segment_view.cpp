#include "format/segment_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/crc32c.h"
#include "format/frame.h"
#include "format/stored_level.h"

namespace ttap::format {
namespace {

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

Error corrupt(uint64_t offset, std::string message) {
  return {.code = ErrorCode::kCorrupt, .message = std::move(message), .offset = offset};
}

// Inside a frame, whose offset take_frame() adds.
Error bad(std::string message) { return {ErrorCode::kCorrupt, std::move(message)}; }

Error truncated(uint64_t offset, std::string message) {
  return {.code = ErrorCode::kTruncated, .message = std::move(message), .offset = offset};
}

}  // namespace

Result<SegmentView> SegmentView::parse(std::span<const std::byte> bytes) {
  TTAP_CHECK(reinterpret_cast<uintptr_t>(bytes.data()) % kAlignment == 0);
  const size_t magic_size = std::min(bytes.size(), sizeof kFileMagic);
  if (magic_size == 0) return truncated(0, "the file is empty");
  if (std::memcmp(bytes.data(), kFileMagic, magic_size) != 0)
    return Error{ErrorCode::kNotThisFormat, "not a TensorTap segment"};
  if (bytes.size() < sizeof(FileHeader)) return truncated(bytes.size(), "the file ends inside its header");
  SegmentView view(bytes);
  view.header_ = load<FileHeader>(bytes.data());
  if (!is_valid(view.header_)) return corrupt(0, "the checksum of the file header does not hold");
  if (view.header_.version_major > kVersionMajor)
    return Error{.code = ErrorCode::kVersion,
                 .message = fmt::format("segment version {}.{}; this build reads up to {}.x",
                                        view.header_.version_major, view.header_.version_minor, kVersionMajor),
                 .hint = "use a newer ttap"};
  if (!view.read_by_index()) view.read_by_scan();
  return view;
}

bool SegmentView::read_by_index() {
  if (bytes_.size() < sizeof(FileHeader) + sizeof(FrameHeader) + sizeof(Trailer)) return false;
  const auto trailer = load<Trailer>(bytes_.data() + bytes_.size() - sizeof(Trailer));
  if (bytes_.size() % kAlignment != 0 || !is_valid(trailer) || trailer.file_bytes != bytes_.size()) return false;
  const uint64_t index_limit = bytes_.size() - sizeof(Trailer) - sizeof(FrameHeader);
  if (trailer.index_offset % kAlignment != 0 || trailer.index_offset > index_limit) return false;
  const auto header = load<FrameHeader>(bytes_.data() + trailer.index_offset);
  const uint64_t room = index_limit - trailer.index_offset;
  if (!is_valid(header) || static_cast<FrameType>(header.type) != FrameType::kIndex) return false;
  if (header.payload_bytes > room || header.payload_bytes != uint64_t{header.row_count} * sizeof(IndexRow))
    return false;
  const auto payload = bytes_.subspan(trailer.index_offset + sizeof header, header.payload_bytes);
  if (crc32c(payload) != header.payload_crc) return false;

  uint64_t end_of_last = sizeof(FileHeader);
  for (uint32_t i = 0; i < header.row_count; ++i) {
    const auto row = load<IndexRow>(payload.data() + i * sizeof(IndexRow));
    const bool in_order =
        row.offset % kAlignment == 0 && row.offset >= end_of_last && row.offset < trailer.index_offset;
    if (!in_order) return forget_all(), false;
    const auto length = take_frame(row.offset);
    if (!length.ok()) return forget_all(), false;
    end_of_last = row.offset + *length;
  }
  has_index_ = true;
  frames_end_ = bytes_.size() - sizeof(Trailer);
  readable_bytes_ = bytes_.size();
  return true;
}

void SegmentView::read_by_scan() {
  uint64_t offset = sizeof(FileHeader);
  while (offset < bytes_.size()) {
    const auto rest = bytes_.subspan(offset);
    if (rest.size() == sizeof(Trailer) && is_valid(load<Trailer>(rest.data()))) {
      frames_end_ = offset;
      readable_bytes_ = bytes_.size();
      return;
    }
    const auto length = take_frame(offset);
    if (!length.ok()) {
      problem_ = length.error().describe();
      break;
    }
    offset += *length;
  }
  frames_end_ = readable_bytes_ = offset;
}

void SegmentView::forget_all() {
  begin_json_ = "{}";
  end_json_.reset();
  strings_.assign(1, 0);
  for (auto* rows : {&events_, &tensors_, &calls_, &uses_}) *rows = {};
  for (auto* frames : {&group_frames_, &sketch_frames_}) frames->clear();
  call_of_event_.clear();
  other_passes_.clear();
  uses_taken_ = groups_taken_ = sketches_taken_ = 0;
}

Result<uint64_t> SegmentView::take_frame(uint64_t offset) {
  const auto rest = bytes_.subspan(offset);
  if (rest.size() < sizeof(FrameHeader)) return truncated(offset, "the file ends inside a frame header");
  const auto header = load<FrameHeader>(rest.data());
  if (!is_valid(header)) return corrupt(offset, "no valid frame header here");
  const uint64_t room = rest.size() - sizeof header;
  if (header.payload_bytes > room || align_up(header.payload_bytes) > room)
    return truncated(offset, fmt::format("a frame of {} bytes, and only {} are there", header.payload_bytes, room));
  const uint64_t length = sizeof header + align_up(header.payload_bytes);
  const auto type = static_cast<FrameType>(header.type);
  if (type == FrameType::kBlobs) return length;

  const auto payload = rest.subspan(sizeof header, header.payload_bytes);
  if (crc32c(payload) != header.payload_crc) return corrupt(offset, "the checksum of a frame does not hold");
  if (type == FrameType::kEnd && payload.size() > kMaxEndBytes)
    return corrupt(offset, "an end record that is too large");
  const std::string_view text(reinterpret_cast<const char*>(payload.data()), payload.size());
  Status taken;
  switch (type) {
    case FrameType::kBegin: begin_json_ = text; break;
    case FrameType::kEnd: end_json_ = text; break;
    case FrameType::kStrings: taken = take_strings(payload, header.row_count); break;
    case FrameType::kEvents: taken = take_events(payload, header.row_count); break;
    case FrameType::kTensors: taken = take_tensors(payload, header.row_count); break;
    case FrameType::kCalls: taken = take_calls(payload, header.row_count); break;
    case FrameType::kUses: taken = take_uses(payload, header.row_count); break;
    case FrameType::kGroups: taken = take_groups(payload, header.row_count); break;
    case FrameType::kSketches: taken = take_sketches(payload, header.row_count); break;
    default: break;  // the index, or a type of a later minor version
  }
  if (!taken.ok()) return corrupt(offset, taken.error().message);
  return length;
}

Status SegmentView::take_strings(std::span<const std::byte> payload, uint32_t count) {
  size_t at = 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (payload.size() - at < sizeof(StringHeader)) return bad("the string table ends early");
    const auto header = load<StringHeader>(payload.data() + at);
    if (string_entry_bytes(header.length) > payload.size() - at) return bad("a string is longer than its frame");
    strings_.push_back(static_cast<uint64_t>(payload.data() + at - bytes_.data()));
    at += string_entry_bytes(header.length);
  }
  if (at != payload.size()) return bad("the string table has bytes left over");
  return {};
}

Status SegmentView::take_events(std::span<const std::byte> payload, uint32_t count) {
  if (payload.size() != uint64_t{count} * sizeof(EventRow)) return bad("an event table of the wrong size");
  for (uint32_t i = 0; i < count; ++i) {
    const auto row = load<EventRow>(payload.data() + i * sizeof(EventRow));
    const bool strings_exist = std::max({row.name, row.kind, row.stack}) < strings_.size();
    const bool parent_exists = row.parent == kNoEvent || row.parent < events_.row_count() + i;
    if (!strings_exist || !parent_exists) return bad("an event refers to something that is not there");
  }
  events_.add(count, payload.data());
  return {};
}

Status SegmentView::take_tensors(std::span<const std::byte> payload, uint32_t count) {
  if (payload.size() != uint64_t{count} * sizeof(TensorRow)) return bad("a tensor table of the wrong size");
  for (uint32_t i = 0; i < count; ++i) TTAP_TRY(check(load<TensorRow>(payload.data() + i * sizeof(TensorRow))));
  for (uint32_t i = 0; i < count; ++i)
    if (const auto row = load<TensorRow>(payload.data() + i * sizeof(TensorRow)); (row.flags & kElsewhere) != 0)
      other_passes_.insert(static_cast<uint32_t>(row.blob_offset));
  tensors_.add(count, payload.data());
  return {};
}

Status SegmentView::take_uses(std::span<const std::byte> payload, uint32_t count) {
  if (payload.size() != uint64_t{count} * sizeof(UseRow)) return bad("a use table of the wrong size");
  for (uint32_t i = 0; i < count; ++i) {
    const auto row = load<UseRow>(payload.data() + i * sizeof(UseRow));
    if (std::max(row.role, row.path) >= strings_.size()) return bad("a use refers to a string that is not there");
  }
  uses_.add(count, payload.data());
  return {};
}

Status SegmentView::take_groups(std::span<const std::byte> payload, uint32_t count) {
  if (payload.size() != uint64_t{count} * sizeof(GroupRow)) return bad("a group table of the wrong size");
  uint64_t taken = groups_taken_;
  for (uint32_t i = 0; i < count; ++i) {
    const auto row = load<GroupRow>(payload.data() + i * sizeof(GroupRow));
    if (row.tensor >= tensors_.row_count()) return bad("a group refers to a tensor that is not there");
    if (row.tensor < taken) return bad("the groups are not in the order of their tensors");
    if (row.description >= strings_.size()) return bad("a group refers to a string that is not there");
    taken = uint64_t{row.tensor} + 1;
  }
  if (count == 0) return {};
  group_frames_.push_back({load<GroupRow>(payload.data()).tensor, count, payload.data()});
  groups_taken_ = taken;
  return {};
}

Status SegmentView::take_sketches(std::span<const std::byte> payload, uint32_t count) {
  if (payload.size() != uint64_t{count} * sizeof(SketchRow)) return bad("a table of sketches of the wrong size");
  uint64_t taken = sketches_taken_;
  for (uint32_t i = 0; i < count; ++i) {
    const auto tensor = load<uint32_t>(payload.data() + i * sizeof(SketchRow));
    if (tensor >= tensors_.row_count()) return bad("a sketch refers to a tensor that is not there");
    if (tensor < taken) return bad("the sketches are not in the order of their tensors");
    taken = uint64_t{tensor} + 1;
  }
  if (count == 0) return {};
  sketch_frames_.push_back({load<uint32_t>(payload.data()), count, payload.data()});
  sketches_taken_ = taken;
  return {};
}

Status SegmentView::take_calls(std::span<const std::byte> payload, uint32_t count) {
  if (payload.size() != uint64_t{count} * sizeof(CallRow)) return bad("a call table of the wrong size");
  call_of_event_.resize(events_.row_count(), kNoNumber);
  for (uint32_t i = 0; i < count; ++i) {
    const auto row = load<CallRow>(payload.data() + i * sizeof(CallRow));
    if (row.event >= events_.row_count()) return bad("a call refers to an event that is not there");
    if (call_of_event_[row.event] != kNoNumber) return bad("an event has a second call");
    if (std::max({row.arguments, row.results, row.notes}) >= strings_.size())
      return bad("a call refers to a string that is not there");
    // Earlier, so that who follows it from event to event comes to an end.
    if (row.forward != kNoEvent && row.forward >= row.event) return bad("a call refers to a forward after it");
    if (row.first_use < uses_taken_) return bad("a use belongs to two calls");
    uses_taken_ = uint64_t{row.first_use} + row.use_count;
    if (uses_taken_ > uses_.row_count()) return bad("a call has uses that are not there");
    call_of_event_[row.event] = static_cast<uint32_t>(calls_.row_count() + i);
  }
  calls_.add(count, payload.data());
  return {};
}

Status SegmentView::check(const TensorRow& row) const {
  const uint32_t largest = std::max({row.name, row.role, row.path, row.device, row.shape, row.strides});
  if (largest >= strings_.size()) return bad("a tensor refers to a string that is not there");
  if (row.event != kNoEvent && row.event >= events_.row_count())
    return bad("a tensor refers to an event that is not there");
  const auto dtype = dtype_from_number(row.dtype);
  if (!dtype) return bad(fmt::format("unknown dtype number {}", row.dtype));
  if (row.level > kStoredFull) return bad(fmt::format("unknown level {}", row.level));
  if (row.call == 0) return bad("call numbers begin at 1");
  for (uint32_t number : {row.shape, row.strides})
    if (string(number).size() % sizeof(int64_t) != 0) return bad("a shape that is not a list of int64");
  const auto shape = numbers(row.shape);
  const auto strides = numbers(row.strides);
  if (!strides.empty() && strides.size() != shape.size()) return bad("strides of another length than the shape");
  const auto elements = checked_element_count(shape, *dtype);
  if (!elements.ok() || row.byte_count != *elements * size_of(*dtype))
    return bad("shape, dtype and byte count do not agree");
  if ((row.flags & (kHasBytes | kElsewhere)) == 0) return {};
  if ((row.flags & kHasFingerprint) == 0) return bad("bytes without a hash to check them by");
  if ((row.flags & kElsewhere) != 0) {
    const bool elsewhere = row.blob_offset <= UINT32_MAX && row.blob_offset != header_.pass_number;
    return elsewhere && (row.flags & kHasBytes) == 0 ? Status{} : bad("bytes that are here and in another pass");
  }
  const bool inside = row.blob_offset % kAlignment == 0 && row.blob_offset <= bytes_.size() &&
                      row.byte_count <= bytes_.size() - row.blob_offset;
  if (!inside) return bad("the bytes of a tensor lie outside the file");
  return {};
}

std::string_view SegmentView::string(uint32_t number) const {
  TTAP_CHECK(number < strings_.size());
  if (number == 0) return {};
  const std::byte* entry = bytes_.data() + strings_[number];
  return {reinterpret_cast<const char*>(entry + sizeof(StringHeader)), load<StringHeader>(entry).length};
}

std::span<const int64_t> SegmentView::numbers(uint32_t number) const {
  // Strings begin on multiples of 8, so their bytes can be read as numbers in place.
  const std::string_view text = string(number);
  return {reinterpret_cast<const int64_t*>(text.data()), text.size() / sizeof(int64_t)};
}

namespace {

// The frame that holds the row of a tensor, if any does.
template <class Frames>
const auto& frame_of(const Frames& frames, size_t tensor) {
  return *(std::ranges::upper_bound(frames, tensor, {}, [](const auto& frame) { return frame.first; }) - 1);
}

}  // namespace

EventRecord SegmentView::event(size_t index) const {
  TTAP_CHECK(index < events_.row_count());
  const auto row = load<EventRow>(events_.row(index, sizeof(EventRow)));
  EventRecord event{string(row.name), string(row.kind), row.call,         row.parent,
                    row.thread,       row.time_ns,      string(row.stack)};
  if (const auto call = call_of(index)) {
    event.arguments = string(call->arguments);
    event.results = string(call->results);
    event.notes = string(call->notes);
    event.forward = call->forward;
    event.duration_ns = call->duration_ns;
    event.returned = true;
    event.use_count = call->use_count;
  }
  return event;
}

std::optional<CallRow> SegmentView::call_of(size_t event) const {
  // Where there is none, and where the frame of the call did not hold, the number is beyond those that were read.
  if (event >= call_of_event_.size() || call_of_event_[event] >= calls_.row_count()) return std::nullopt;
  const uint32_t number = call_of_event_[event];
  return load<CallRow>(calls_.row(number, sizeof(CallRow)));
}

namespace {

// Where the row of a tensor is, of those in the order of their tensors, whose numbers they begin with; null for none.
template <class Row, class Frames>
const std::byte* row_of_tensor(const Frames& frames, size_t tensor) {
  if (frames.empty() || tensor < frames.front().first) return nullptr;
  const auto& frame = frame_of(frames, tensor);
  const auto tensor_of = [&](size_t i) { return load<uint32_t>(frame.rows + i * sizeof(Row)); };
  size_t first = 0, end = frame.count;  // the last one of it whose tensor is not a later one
  while (end - first > 1) {
    const size_t middle = first + (end - first) / 2;
    (tensor_of(middle) <= tensor ? first : end) = middle;
  }
  return tensor_of(first) == tensor ? frame.rows + first * sizeof(Row) : nullptr;
}

}  // namespace

std::string_view SegmentView::group_of(size_t tensor) const {
  const std::byte* row = row_of_tensor<GroupRow>(group_frames_, tensor);
  return row != nullptr ? string(load<GroupRow>(row).description) : std::string_view{};
}

void SegmentView::set_sketch(size_t tensor, Fingerprint& fingerprint) const {
  const std::byte* row = row_of_tensor<SketchRow>(sketch_frames_, tensor);
  if (row == nullptr) return;
  fingerprint.has_sketch = true;
  std::memcpy(fingerprint.sketch.data(), row + offsetof(SketchRow, buckets), sizeof(SketchRow::buckets));
}

UseRow SegmentView::use_row(size_t event, size_t index) const {
  const auto call = call_of(event);
  TTAP_CHECK(call && index < call->use_count);
  const size_t number = call->first_use + index;
  return load<UseRow>(uses_.row(number, sizeof(UseRow)));
}

TensorRow SegmentView::tensor_row(size_t index) const {
  TTAP_CHECK(index < tensors_.row_count());
  return load<TensorRow>(tensors_.row(index, sizeof(TensorRow)));
}

TensorRecord SegmentView::tensor(size_t index) const {
  const TensorRow row = tensor_row(index);
  TensorRecord record;
  record.name = string(row.name);
  record.call = row.call;
  record.role = string(row.role);
  record.path = string(row.path);
  record.event = row.event;
  record.dtype = static_cast<DType>(row.dtype);
  record.shape = numbers(row.shape);
  record.strides = numbers(row.strides);
  record.device = string(row.device);
  record.has_fingerprint = (row.flags & kHasFingerprint) != 0;
  record.fingerprint = {{row.hash_low, row.hash_high},
                        {row.count, row.nan, row.pos_inf, row.neg_inf, row.zeros, row.subnormals, row.min, row.max,
                         row.max_abs, row.min_abs_nonzero, row.mean, row.std, row.l1, row.l2}};
  if (record.has_fingerprint) set_sketch(index, record.fingerprint);
  record.level = level_of(row.level, record.fingerprint.has_sketch);
  record.has_bytes = (row.flags & kHasBytes) != 0;
  record.byte_count = row.byte_count;
  record.value = row.value;
  record.group = group_of(index);
  return record;
}

std::span<const std::byte> SegmentView::blob(size_t index) const {
  const TensorRow row = tensor_row(index);
  if ((row.flags & kHasBytes) == 0) return {};
  return bytes_.subspan(row.blob_offset, row.byte_count);
}

}  // namespace ttap::format
