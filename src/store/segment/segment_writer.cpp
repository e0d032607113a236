#include "store/segment/segment_writer.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "format/frame.h"
#include "format/stored_level.h"

namespace ttap {
namespace {

using format::FrameType;

constexpr std::array<std::byte, kDirectAlignment> kZeros{};

std::span<const std::byte> padding_of(uint64_t size) { return std::span(kZeros).first(format::align_up(size) - size); }

// How many zeros come before a blob that could begin at `offset`.
uint64_t zeros_before(uint64_t offset, uint64_t size) {
  return size < kDirectBytes ? 0 : (kDirectAlignment - offset % kDirectAlignment) % kDirectAlignment;
}

iovec part_of(std::span<const std::byte> bytes) { return {const_cast<std::byte*>(bytes.data()), bytes.size()}; }

}  // namespace

Result<SegmentWriter> SegmentWriter::create(const std::filesystem::path& path, uint32_t pass_number,
                                            uint64_t started_unix_ns, std::string_view begin_json,
                                            const Options& options) {
  std::filesystem::path incomplete = path;
  incomplete += kIncompleteSuffix;
  std::error_code error;
  if (std::filesystem::exists(path, error))
    return Error{.code = ErrorCode::kInvalidArgument, .message = "is there already", .path = path.string()};
  TTAP_ASSIGN(SegmentFile file, SegmentFile::create(incomplete, options.pace));
  SegmentWriter writer(path, std::move(file), options);
  const format::FileHeader header = format::make_file_header(pass_number, started_unix_ns);
  const auto header_bytes = std::as_bytes(std::span(&header, 1));
  std::vector<std::byte> start(header_bytes.begin(), header_bytes.end());
  format::append_frame(start, FrameType::kBegin, std::as_bytes(std::span(begin_json)));
  if (Status written = writer.file_.write(0, start); !written.ok()) {
    ::unlink(incomplete.c_str());  // nothing could ever be read from it
    return std::move(written).error();
  }
  writer.index_.push_back({sizeof header, static_cast<uint16_t>(FrameType::kBegin), 0, 0});
  writer.position_ = start.size();
  return writer;
}

void SegmentWriter::lose_events(uint32_t begin, uint32_t end) {
  if (begin == end) return;
  // What was lost inside the range is lost with it.
  while (!lost_events_.empty() && lost_events_.back().begin >= begin) lost_events_.pop_back();
  if (!lost_events_.empty() && lost_events_.back().end >= begin) {
    lost_events_.back().end = end;
    return;
  }
  const LostEvents* last = lost_events_.empty() ? nullptr : &lost_events_.back();
  lost_events_.push_back({begin, end, last == nullptr ? 0 : last->lost_before + (last->end - last->begin)});
}

uint32_t SegmentWriter::file_number_of(uint32_t event) const {
  if (event >= next_event_) return kNoEvent;
  const auto after =
      std::ranges::upper_bound(lost_events_, event, {}, [](const LostEvents& lost) { return lost.begin; });
  if (after == lost_events_.begin()) return event;
  const LostEvents& lost = *(after - 1);
  if (event < lost.end) return kNoEvent;
  return event - lost.lost_before - (lost.end - lost.begin);
}

void SegmentWriter::add_event(uint32_t number, const EventRecord& event) {
  TTAP_CHECK(number >= next_event_);
  if (events_.empty()) first_pending_event_ = number;
  lose_events(next_event_, number);
  const uint32_t parent = file_number_of(event.parent);  // before this one counts as seen: no event is its own parent
  next_event_ = number + 1;
  events_.push_back({strings_.intern(event.name), strings_.intern(event.kind), event.call, parent,
                     strings_.intern(event.stack), 0, event.thread, event.time_ns});
}

bool SegmentWriter::add_call(uint32_t number, const Call& call) {
  const uint32_t event = file_number_of(number);
  if (event == kNoEvent) return false;
  if (ended_.size() <= event) ended_.resize(event_count_ + events_.size());
  const uint64_t first_use = use_count_ + uses_.size();
  if (ended_[event] || first_use + call.uses.size() > UINT32_MAX) return false;
  ended_[event] = true;
  const uint32_t forward = file_number_of(call.forward);
  for (const Use& use : call.uses)
    uses_.push_back({strings_.intern(use.role), strings_.intern(use.path), use.tensor, use.value,
                     use.written ? uint32_t{format::kWritten} : 0, 0});
  calls_.push_back({event, strings_.intern(call.arguments), strings_.intern(call.results), strings_.intern(call.notes),
                    forward < event ? forward : kNoEvent, static_cast<uint32_t>(first_use),
                    static_cast<uint32_t>(call.uses.size()), 0, call.duration_ns});
  return true;
}

// After they could not be written; how many events are not there as they should be.
uint64_t SegmentWriter::take_back_events() {
  uint64_t lost = events_.size();
  for (const format::CallRow& call : calls_) {
    ended_[call.event] = false;
    if (call.event < event_count_) ++lost;  // the others are lost with their events
  }
  // The numbers of lost events are given out again.
  if (!events_.empty()) lose_events(first_pending_event_, next_event_);
  return lost;
}

uint64_t SegmentWriter::pending_bytes() const {
  if (pending_rows() == 0) return 0;
  constexpr uint64_t kFrames = 8 * (sizeof(format::FrameHeader) + format::kAlignment);
  return blob_bytes_ + strings_.pending_bytes() + events_.size() * sizeof(format::EventRow) +
         tensors_.size() * sizeof(format::TensorRow) + uses_.size() * sizeof(format::UseRow) +
         calls_.size() * sizeof(format::CallRow) + groups_.size() * sizeof(format::GroupRow) +
         sketches_.size() * sizeof(format::SketchRow) + kFrames;
}

format::TensorRow SegmentWriter::row_of(const TensorRecord& tensor, uint64_t time_ns) {
  format::TensorRow row{};
  row.name = strings_.intern(tensor.name);
  row.call = tensor.call;
  row.role = strings_.intern(tensor.role);
  row.path = strings_.intern(tensor.path);
  row.event = file_number_of(tensor.event);
  row.device = strings_.intern(tensor.device);
  row.shape = strings_.intern(tensor.shape);
  row.strides = strings_.intern(tensor.strides);
  row.dtype = static_cast<uint8_t>(tensor.dtype);
  row.level = format::stored_level(tensor.level);
  row.value = tensor.value;
  row.time_ns = time_ns;
  row.byte_count = tensor.byte_count;
  if (tensor.has_fingerprint) {
    const Stats& s = tensor.fingerprint.stats;
    row.flags |= format::kHasFingerprint;
    row.hash_low = tensor.fingerprint.hash.low;
    row.hash_high = tensor.fingerprint.hash.high;
    row.count = s.count;
    row.nan = s.nan;
    row.pos_inf = s.pos_inf;
    row.neg_inf = s.neg_inf;
    row.zeros = s.zeros;
    row.subnormals = s.subnormals;
    row.min = s.min;
    row.max = s.max;
    row.max_abs = s.max_abs;
    row.min_abs_nonzero = s.min_abs_nonzero;
    row.mean = s.mean;
    row.std = s.std;
    row.l1 = s.l1;
    row.l2 = s.l2;
  }
  return row;
}

uint64_t SegmentWriter::add_tensor(const TensorRecord& tensor, uint64_t time_ns, std::span<const std::byte> bytes) {
  TTAP_CHECK(!large_);
  format::TensorRow row = row_of(tensor, time_ns);
  uint64_t cost = 0;
  if (tensor.has_bytes) {
    TTAP_CHECK(tensor.has_fingerprint && bytes.size() == tensor.byte_count);
    row.flags |= format::kHasBytes;
    const Hash128& hash = tensor.fingerprint.hash;
    const auto known = options_.deduplicate ? blobs_.find(hash) : blobs_.end();
    if (bytes.empty()) {
      row.blob_offset = 0;
    } else if (known != blobs_.end()) {
      row.blob_offset = known->second;
    } else {
      // Blobs are the first frame of a flush, so their place is known before the other frames' size.
      const uint64_t end = position_ + sizeof(format::FrameHeader) + blob_bytes_;
      const uint64_t zeros = zeros_before(end, bytes.size());
      row.blob_offset = end + zeros;
      if (blobs_.emplace(hash, row.blob_offset).second) new_hashes_.push_back(hash);
      blob_parts_.push_back({zeros, bytes});
      cost = zeros + format::align_up(bytes.size());
      blob_bytes_ += cost;
    }
  }
  add_row(row, tensor);
  return cost;
}

void SegmentWriter::add_tensor_elsewhere(const TensorRecord& tensor, uint64_t time_ns, uint32_t pass) {
  TTAP_CHECK(!large_ && tensor.has_fingerprint);
  format::TensorRow row = row_of(tensor, time_ns);
  row.flags |= format::kElsewhere;
  row.blob_offset = pass;
  add_row(row, tensor);
}

// And the rows that go with it.
void SegmentWriter::add_row(const format::TensorRow& row, const TensorRecord& tensor) {
  const uint64_t number = tensor_count_ + tensors_.size();
  tensors_.push_back(row);
  if (number >= UINT32_MAX) return;
  if (!tensor.group.empty()) groups_.push_back({static_cast<uint32_t>(number), strings_.intern(tensor.group)});
  if (tensor.has_fingerprint && tensor.fingerprint.has_sketch) {
    format::SketchRow& sketch = sketches_.emplace_back();
    sketch.tensor = static_cast<uint32_t>(number);
    static_assert(sizeof sketch.buckets == sizeof tensor.fingerprint.sketch);
    std::memcpy(sketch.buckets, tensor.fingerprint.sketch.data(), sizeof sketch.buckets);
  }
}

void SegmentWriter::add_alias_row(std::string_view name) {
  TTAP_CHECK(!tensors_.empty());
  format::TensorRow row = tensors_.back();
  row.name = strings_.intern(name);
  row.value = 0;
  const uint64_t original = tensor_count_ + tensors_.size() - 1;
  tensors_.push_back(row);
  if (!groups_.empty() && groups_.back().tensor == original)
    groups_.push_back({static_cast<uint32_t>(original + 1), groups_.back().description});
  if (!sketches_.empty() && sketches_.back().tensor == original) {
    format::SketchRow sketch = sketches_.back();
    ++sketch.tensor;
    sketches_.push_back(sketch);
  }
}

SegmentWriter::Outcome SegmentWriter::flush() {
  Outcome outcome;
  if (pending_rows() == 0) return outcome;
  Status written = write_pending();
  if (!written.ok() && !blob_parts_.empty()) {
    outcome.error = std::move(written).error();
    const auto bytes_before = static_cast<uint64_t>(
        std::ranges::count_if(tensors_, [](const auto& row) { return (row.flags & format::kHasBytes) != 0; }));
    strip_pending_blobs();
    const auto bytes_after = static_cast<uint64_t>(
        std::ranges::count_if(tensors_, [](const auto& row) { return (row.flags & format::kHasBytes) != 0; }));
    outcome.tensors_without_bytes = bytes_before - bytes_after;
    written = write_pending();
  }
  if (written.ok()) {
    tensor_count_ += tensors_.size();
    event_count_ += events_.size();
    use_count_ += uses_.size();
    strings_.commit();
  } else {
    outcome.tensors_without_bytes = 0;
    outcome.tensors_lost = tensors_.size();
    outcome.events_lost = take_back_events();
    outcome.error = std::move(written).error();
    strip_pending_blobs();
    strings_.rollback();
  }
  forget_pending();
  return outcome;
}

Status SegmentWriter::write_pending() {
  std::vector<std::byte> rows;  // everything but the blobs
  std::vector<format::IndexRow> new_index;
  const uint64_t blobs_size = blob_parts_.empty() ? 0 : sizeof(format::FrameHeader) + blob_bytes_;
  const auto add = [&](FrameType type, std::span<const std::byte> payload, size_t count) {
    if (count == 0) return;
    new_index.push_back({position_ + blobs_size + rows.size(), static_cast<uint16_t>(type), 0, 0});
    format::append_frame(rows, type, payload, static_cast<uint32_t>(count));
  };
  add(FrameType::kStrings, strings_.pending_payload(), strings_.pending_count());
  add(FrameType::kEvents, std::as_bytes(std::span(events_)), events_.size());
  add(FrameType::kTensors, std::as_bytes(std::span(tensors_)), tensors_.size());
  add(FrameType::kGroups, std::as_bytes(std::span(groups_)), groups_.size());
  add(FrameType::kSketches, std::as_bytes(std::span(sketches_)), sketches_.size());
  add(FrameType::kUses, std::as_bytes(std::span(uses_)), uses_.size());
  add(FrameType::kCalls, std::as_bytes(std::span(calls_)), calls_.size());

  std::vector<iovec> parts;
  format::FrameHeader blobs_header{};
  if (!blob_parts_.empty()) {
    blobs_header = format::make_blobs_header(blob_bytes_);
    parts.push_back(part_of(std::as_bytes(std::span(&blobs_header, 1))));
    for (const Blob& blob : blob_parts_) {
      parts.push_back(part_of(std::span(kZeros).first(blob.zeros_before)));
      parts.push_back(part_of(blob.bytes));
      parts.push_back(part_of(padding_of(blob.bytes.size())));
    }
  }
  parts.push_back(part_of(rows));
  Status written = file_.write(position_, parts);
  if (!written.ok()) {
    (void)file_.cut(position_);
    return written;
  }
  position_ += blobs_size + rows.size();
  index_.insert(index_.end(), new_index.begin(), new_index.end());
  return {};
}

void SegmentWriter::strip_pending_blobs() {
  for (auto& row : tensors_) {
    if ((row.flags & format::kHasBytes) == 0 || row.byte_count == 0 || row.blob_offset < position_) continue;
    row.flags &= static_cast<uint8_t>(~format::kHasBytes);
    row.blob_offset = 0;
  }
  for (const Hash128& hash : new_hashes_) blobs_.erase(hash);
  new_hashes_.clear();
  blob_parts_.clear();
  blob_bytes_ = 0;
}

void SegmentWriter::forget_pending() {
  events_.clear();
  tensors_.clear();
  uses_.clear();
  calls_.clear();
  groups_.clear();
  sketches_.clear();
  blob_parts_.clear();
  new_hashes_.clear();
  blob_bytes_ = 0;
}

Status SegmentWriter::begin_large(uint64_t byte_count) {
  TTAP_CHECK(pending_rows() == 0 && !large_);
  const uint64_t payload = position_ + sizeof(format::FrameHeader);
  const uint64_t zeros = zeros_before(payload, byte_count);
  const format::FrameHeader header = format::make_blobs_header(zeros + byte_count);
  large_ = Large{payload + zeros, byte_count, 0};
  iovec parts[] = {part_of(std::as_bytes(std::span(&header, 1))), part_of(std::span(kZeros).first(zeros))};
  Status written = file_.write(position_, parts);
  if (!written.ok()) abandon_large();
  return written;
}

Status SegmentWriter::write_large(std::span<const std::byte> piece) {
  TTAP_CHECK(large_ && large_->written + piece.size() <= large_->byte_count);
  const uint64_t at = large_->offset + large_->written;
  large_->written += piece.size();
  const bool last = large_->written == large_->byte_count;
  iovec parts[] = {part_of(piece), part_of(last ? padding_of(large_->byte_count) : std::span<const std::byte>{})};
  Status written = file_.write(at, parts);
  if (!written.ok()) abandon_large();
  return written;
}

void SegmentWriter::add_tensor_of_large(const TensorRecord& tensor, uint64_t time_ns) {
  TTAP_CHECK(large_ && large_->written == large_->byte_count && tensor.has_fingerprint);
  const Hash128& hash = tensor.fingerprint.hash;
  const auto known = options_.deduplicate ? blobs_.find(hash) : blobs_.end();
  uint64_t blob_offset = 0;
  if (known != blobs_.end()) {
    // Its hash is known only now: the same bytes are there already, so these are taken back.
    blob_offset = known->second;
    abandon_large();
  } else {
    blob_offset = large_->offset;
    blobs_.emplace(hash, blob_offset);
    position_ = blob_offset + format::align_up(large_->byte_count);
    large_.reset();
  }
  format::TensorRow row = row_of(tensor, time_ns);
  row.flags |= format::kHasBytes;
  row.blob_offset = blob_offset;
  add_row(row, tensor);
}

void SegmentWriter::abandon_large() {
  large_.reset();
  (void)file_.cut(position_);
}

std::vector<std::byte> make_segment_tail(uint64_t position, std::string_view end_json,
                                         std::vector<format::IndexRow> index) {
  std::vector<std::byte> tail;
  index.push_back({position, static_cast<uint16_t>(FrameType::kEnd), 0, 0});
  format::append_frame(tail, FrameType::kEnd, std::as_bytes(std::span(end_json)));
  const uint64_t index_offset = position + tail.size();
  format::append_frame(tail, FrameType::kIndex, std::as_bytes(std::span(index)), static_cast<uint32_t>(index.size()));
  const format::Trailer trailer = format::make_trailer(index_offset, position + tail.size() + sizeof(format::Trailer));
  const auto trailer_bytes = std::as_bytes(std::span(&trailer, 1));
  tail.insert(tail.end(), trailer_bytes.begin(), trailer_bytes.end());
  return tail;
}

Status SegmentWriter::finish(std::string_view end_json, const std::function<void()>& make_room) {
  TTAP_CHECK(pending_rows() == 0 && !large_);
  const auto tail = make_segment_tail(position_, end_json, index_);
  Status written = file_.write(position_, tail);
  if (!written.ok() && make_room) {
    make_room();
    written = file_.write(position_, tail);
  }
  if (!written.ok()) {
    (void)file_.cut(position_);
    return written;
  }
  position_ += tail.size();
  // An earlier write that failed half-way may have left more behind.
  TTAP_TRY(file_.cut(position_));
  if (options_.sync) TTAP_TRY(file_.sync());
  TTAP_TRY(rename_to_new(file_.path(), path_));
  if (options_.sync) {
    TTAP_ASSIGN(const FileDescriptor directory, FileDescriptor::open(path_.parent_path(), O_RDONLY | O_CLOEXEC));
    if (::fsync(directory.get()) != 0) return errno_error("cannot sync", path_.parent_path());
  }
  // Last, since closing unlocks.
  return file_.close(path_);
}

}  // namespace ttap
