#include "store/segment_writer.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "format/frame.h"

namespace ttap {
namespace {

using format::FrameType;

constexpr std::array<std::byte, format::kAlignment> kZeros{};

std::span<const std::byte> padding_of(uint64_t size) { return std::span(kZeros).first(format::align_up(size) - size); }

iovec part_of(std::span<const std::byte> bytes) { return {const_cast<std::byte*>(bytes.data()), bytes.size()}; }

}  // namespace

Result<SegmentWriter> SegmentWriter::create(const std::filesystem::path& path, uint32_t pass_number,
                                            uint64_t started_unix_ns, std::string_view begin_json,
                                            const Options& options) {
  std::filesystem::path incomplete = path;
  incomplete += kIncompleteSuffix;
  TTAP_ASSIGN(FileDescriptor file, FileDescriptor::open(incomplete, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC));
  // Tells readers that somebody is still at work; the lock goes with the process. A file system without locks only
  // loses that piece of information.
  (void)::flock(file.get(), LOCK_EX | LOCK_NB);
  SegmentWriter writer(path, std::move(incomplete), std::move(file), options);
  const format::FileHeader header = format::make_file_header(pass_number, started_unix_ns);
  const auto header_bytes = std::as_bytes(std::span(&header, 1));
  std::vector<std::byte> start(header_bytes.begin(), header_bytes.end());
  format::append_frame(start, FrameType::kBegin, std::as_bytes(std::span(begin_json)));
  TTAP_TRY(write_all(writer.file_.get(), 0, start, writer.incomplete_));
  writer.index_.push_back({sizeof header, static_cast<uint16_t>(FrameType::kBegin), 0, 0});
  writer.position_ = start.size();
  return writer;
}

void SegmentWriter::add_event(uint32_t number, const EventRecord& event) {
  const auto next = [&] { return event_count_ + static_cast<uint32_t>(events_.size()); };
  while (next() < number) events_.push_back({0, 0, 1, kNoEvent, 0, 0, 0, 0});
  TTAP_CHECK(next() == number);
  events_.push_back({strings_.intern(event.name), strings_.intern(event.kind), event.call, event.parent,
                     strings_.intern(event.stack), 0, event.thread, event.time_ns});
}

format::TensorRow SegmentWriter::row_of(const TensorRecord& tensor, uint64_t time_ns) {
  format::TensorRow row{};
  row.name = strings_.intern(tensor.name);
  row.call = tensor.call;
  row.role = strings_.intern(tensor.role);
  row.path = strings_.intern(tensor.path);
  // An event that was lost with its flush is not referred to.
  row.event = tensor.event < event_count_ + events_.size() ? tensor.event : kNoEvent;
  row.device = strings_.intern(tensor.device);
  row.shape = strings_.intern(tensor.shape);
  row.strides = strings_.intern(tensor.strides);
  row.dtype = static_cast<uint8_t>(tensor.dtype);
  row.level = static_cast<uint8_t>(tensor.level);
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
      row.blob_offset = position_ + sizeof(format::FrameHeader) + blob_bytes_;
      if (blobs_.emplace(hash, row.blob_offset).second) new_hashes_.push_back(hash);
      blob_parts_.push_back(bytes);
      cost = format::align_up(bytes.size());
      blob_bytes_ += cost;
    }
  }
  tensors_.push_back(row);
  return cost;
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
    event_count_ += static_cast<uint32_t>(events_.size());
    strings_.commit();
  } else {
    outcome.tensors_without_bytes = 0;
    outcome.tensors_lost = tensors_.size();
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

  std::vector<iovec> parts;
  format::FrameHeader blobs_header{};
  if (!blob_parts_.empty()) {
    blobs_header = format::make_blobs_header(blob_bytes_);
    parts.push_back(part_of(std::as_bytes(std::span(&blobs_header, 1))));
    for (const auto& blob : blob_parts_) {
      parts.push_back(part_of(blob));
      parts.push_back(part_of(padding_of(blob.size())));
    }
  }
  parts.push_back(part_of(rows));
  Status written = write_all(file_.get(), position_, parts, incomplete_);
  if (!written.ok()) {
    (void)::ftruncate(file_.get(), static_cast<off_t>(position_));
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
  blob_parts_.clear();
  new_hashes_.clear();
  blob_bytes_ = 0;
}

Status SegmentWriter::begin_large(uint64_t byte_count) {
  TTAP_CHECK(pending_rows() == 0 && !large_);
  const format::FrameHeader header = format::make_blobs_header(byte_count);
  large_ = Large{byte_count, 0};
  Status written = write_all(file_.get(), position_, std::as_bytes(std::span(&header, 1)), incomplete_);
  if (!written.ok()) abandon_large();
  return written;
}

Status SegmentWriter::write_large(std::span<const std::byte> piece) {
  TTAP_CHECK(large_ && large_->written + piece.size() <= large_->byte_count);
  const uint64_t at = position_ + sizeof(format::FrameHeader) + large_->written;
  large_->written += piece.size();
  const bool last = large_->written == large_->byte_count;
  iovec parts[] = {part_of(piece), part_of(last ? padding_of(large_->byte_count) : std::span<const std::byte>{})};
  Status written = write_all(file_.get(), at, parts, incomplete_);
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
    blob_offset = position_ + sizeof(format::FrameHeader);
    blobs_.emplace(hash, blob_offset);
    position_ = blob_offset + format::align_up(large_->byte_count);
    large_.reset();
  }
  format::TensorRow row = row_of(tensor, time_ns);
  row.flags |= format::kHasBytes;
  row.blob_offset = blob_offset;
  tensors_.push_back(row);
}

void SegmentWriter::abandon_large() {
  large_.reset();
  (void)::ftruncate(file_.get(), static_cast<off_t>(position_));
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
  Status written = write_all(file_.get(), position_, tail, incomplete_);
  if (!written.ok() && make_room) {
    make_room();
    written = write_all(file_.get(), position_, tail, incomplete_);
  }
  if (!written.ok()) {
    (void)::ftruncate(file_.get(), static_cast<off_t>(position_));
    return written;
  }
  position_ += tail.size();
  if (options_.sync && ::fdatasync(file_.get()) != 0) return errno_error("cannot sync", incomplete_);
  TTAP_TRY(file_.close(incomplete_));
  if (::rename(incomplete_.c_str(), path_.c_str()) != 0) return errno_error("cannot rename", incomplete_);
  return {};
}

}  // namespace ttap
