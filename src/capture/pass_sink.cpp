#include "capture/pass_sink.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "store/run_layout.h"

namespace ttap {
namespace {

constexpr size_t kBatchRows = 512;
// Kept on disk as an empty promise, so that a full disk still has room to end the pass properly.
constexpr size_t kReserveBytes = 256 << 10;

// What the header, the end and the index of a pass take, roughly; kept free while it is written.
constexpr uint64_t kPassOverhead = 2048;
// Headers and padding of the strings a row may bring.
constexpr uint64_t kStringOverhead = 8 * 16;

// What blobs leave free for rows, so that fingerprints go on for a while after the bytes stop.
uint64_t quota_headroom(uint64_t quota) { return std::min<uint64_t>(quota / 16, 1 << 20); }

TensorRecord record_of(const StagedTensor& tensor) {
  TensorRecord record;
  record.name = tensor.name->name;
  record.call = tensor.call;
  record.role = tensor.role;
  record.path = tensor.path;
  record.event = tensor.event;
  record.dtype = tensor.dtype;
  record.shape = tensor.shape;
  record.strides = tensor.strides;
  record.device = tensor.device;
  record.level = tensor.level;
  record.byte_count = tensor.byte_count;
  return record;
}

void set_fingerprint(TensorRecord& record, const Fingerprint& fingerprint) {
  record.has_fingerprint = true;
  record.fingerprint = fingerprint;
}

}  // namespace

struct PassSink::Large {
  StagedTensor staged;  // its spans and views point into the copies below
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  std::string role, path, device;
  bool keeping;     // bytes are going to the file
  bool over_quota;  // they are not, for lack of quota
};

PassSink::PassSink(Options options)
    : options_(std::move(options)),
      pace_(options_.write == WriteMode::kAuto ? DiskPace::Rule::kWhileFast : DiskPace::Rule::kAlways) {
  if (options_.write != WriteMode::kBuffered) options_.segment.pace = &pace_;
}

bool PassSink::batch_is_full() const {
  return writer_ && (writer_->pending_rows() >= kBatchRows || writer_->pending_blob_bytes() >= options_.batch_bytes);
}

void PassSink::take(StagingRing::Record* record) {
  switch (kind_of(record)) {
    case StagedKind::kBeginPass: return begin_pass(staged_as<StagedBeginPass>(record));
    case StagedKind::kEndPass: {
      const auto& end = staged_as<StagedEndPass>(record);
      return end_pass(end.ending, end.drops);
    }
    case StagedKind::kEvent: {
      const auto& event = staged_as<StagedEvent>(record);
      return take_event(event.number, {event.name->name, event.kind, event.call, event.parent, event.thread,
                                       event.time_ns, event.stack});
    }
    case StagedKind::kTensor: return take_tensor(staged_as<StagedTensor>(record));
    case StagedKind::kPiece: return take_piece(staged_as<StagedPiece>(record).payload);
    case StagedKind::kFlush: return;
    case StagedKind::kStop:
      // A capture that came between the last end_pass() and the stop has begun a pass that nobody ends.
      if (pass_open_) end_pass(Ending::kComplete, {});
      return;
  }
}

void PassSink::begin_pass(const StagedBeginPass& begin) {
  pass_open_ = true;
  {
    const std::lock_guard lock(mutex_);
    ++totals_.report.passes;
  }
  if (!quota_allows(options_.begin_json.size() + kPassOverhead, 0)) {
    no_file_ = &DropCounts::quota;
    return;
  }
  const auto create = [&] {
    return SegmentWriter::create(options_.rank_directory / (pass_stem(begin.number) + ".ttap"), begin.number,
                                 begin.unix_ns, options_.begin_json, options_.segment);
  };
  auto first_try = create();
  const bool again = !first_try.ok() && first_try.error().code == ErrorCode::kNoSpace;
  if (again) release_reserve();
  auto writer = again ? create() : std::move(first_try);
  if (!writer.ok()) {
    no_file_ = cause_of(writer.error());
    return note(writer.error());
  }
  writer_.emplace(std::move(writer).value());
  hold_reserve();
}

void PassSink::end_pass(Ending ending, const DropCounts& producers) {
  flush();
  pass_open_ = false;
  EndRecord end{.ending = ending};
  {
    const std::lock_guard lock(mutex_);
    totals_.report.drops += producers;
    pass_drops_ += producers;
    end.drops = std::exchange(pass_drops_, {});
  }
  if (!writer_) return;
  const Status finished = writer_->finish(to_json(end), [this] { release_reserve(); });
  if (!finished.ok()) note(finished.error());
  finished_bytes_ += writer_->file_bytes();
  writer_.reset();
  count_file_bytes();
}

void PassSink::take_event(uint32_t number, const EventRecord& event) {
  const uint64_t cost =
      sizeof(format::EventRow) + kStringOverhead + event.name.size() + event.kind.size() + event.stack.size();
  if (!writer_ || !quota_allows(cost, 0)) return count_drop(&DropCounts::events, 1);
  writer_->add_event(number, event);
}

void PassSink::take_tensor(const StagedTensor& tensor) {
  // No file could be made for this pass: the reason is noted, its tensors are lost.
  if (!writer_) return count_drop(no_file_, 1);
  const uint64_t row_cost = sizeof(format::TensorRow) + sizeof(format::EventRow) + kStringOverhead +
                            tensor.name->name.size() + tensor.role.size() + tensor.path.size() + tensor.device.size() +
                            tensor.shape.size_bytes() + tensor.strides.size_bytes();
  if (!quota_allows(row_cost, 0)) return count_drop(&DropCounts::quota, 1);
  if (tensor.own_event)
    writer_->add_event(tensor.event,
                       {tensor.name->name, "capture", tensor.call, kNoEvent, tensor.thread, tensor.time_ns, {}});
  if (!tensor.payload.last) return start_large(tensor);

  TensorRecord record = record_of(tensor);
  if (tensor.level >= Level::kFingerprint) set_fingerprint(record, tensor.payload.fingerprint);
  record.has_bytes = tensor.level == Level::kFull;
  const bool known = record.has_bytes && writer_->has_blob(record.fingerprint.hash);
  if (record.has_bytes && !known && !quota_allows(tensor.byte_count + row_cost, quota_headroom(options_.quota_bytes))) {
    record.has_bytes = false;
    ++batch_.over_quota;
  }
  writer_->add_tensor(record, tensor.time_ns, tensor.payload.bytes);
  ++batch_.tensors;
  batch_.tensor_bytes += tensor.byte_count;
  if (known && tensor.byte_count > 0) ++batch_.deduplicated;
}

void PassSink::start_large(const StagedTensor& tensor) {
  flush();
  large_ = std::make_shared<Large>(Large{tensor,
                                         {tensor.shape.begin(), tensor.shape.end()},
                                         {tensor.strides.begin(), tensor.strides.end()},
                                         std::string(tensor.role),
                                         std::string(tensor.path),
                                         std::string(tensor.device),
                                         false,
                                         false});
  large_->staged.shape = large_->shape;
  large_->staged.strides = large_->strides;
  large_->staged.role = large_->role;
  large_->staged.path = large_->path;
  large_->staged.device = large_->device;
  if (tensor.level == Level::kFull) {
    large_->over_quota = !quota_allows(tensor.byte_count, quota_headroom(options_.quota_bytes));
    if (!large_->over_quota) {
      const Status begun = writer_->begin_large(tensor.byte_count);
      large_->keeping = begun.ok();
      if (!begun.ok()) {
        note(begun.error());
        count_drop(cause_of(begun.error()), 1);
      }
    }
  }
  take_piece(tensor.payload);
}

void PassSink::take_piece(const StagedPayload& payload) {
  if (!large_) return;  // its first piece was dropped
  if (large_->keeping) {
    const Status written = writer_->write_large(payload.bytes);
    if (!written.ok()) {
      large_->keeping = false;
      note(written.error());
      count_drop(cause_of(written.error()), 1);
    }
  }
  if (!payload.last) return;
  TensorRecord record = record_of(large_->staged);
  set_fingerprint(record, payload.fingerprint);
  if (large_->keeping) {
    record.has_bytes = true;
    if (writer_->has_blob(record.fingerprint.hash)) ++batch_.deduplicated;
    writer_->add_tensor_of_large(record, large_->staged.time_ns);
  } else {
    writer_->add_tensor(record, large_->staged.time_ns, {});
  }
  ++batch_.tensors;
  batch_.tensor_bytes += record.byte_count;
  if (large_->over_quota) ++batch_.over_quota;
  large_.reset();
}

void PassSink::flush() {
  if (!has_batch()) return;
  const SegmentWriter::Outcome outcome = writer_->flush();
  const Batch batch = std::exchange(batch_, {});
  count_file_bytes();
  if (outcome.error) {
    note(*outcome.error);
    count_drop(cause_of(*outcome.error), outcome.tensors_without_bytes + outcome.tensors_lost);
    count_drop(&DropCounts::events, outcome.events_lost);
  }
  // A batch is in the file whole, or not at all.
  if (outcome.tensors_lost > 0 || outcome.events_lost > 0) return;
  count_drop(&DropCounts::quota, batch.over_quota);
  const std::lock_guard lock(mutex_);
  totals_.report.tensors += batch.tensors;
  totals_.report.tensor_bytes += batch.tensor_bytes;
  totals_.report.deduplicated += batch.deduplicated;
}

uint64_t PassSink::bytes_used() const {
  return finished_bytes_ + (writer_ ? writer_->file_bytes() + writer_->pending_bytes() : 0);
}

bool PassSink::quota_allows(uint64_t bytes, uint64_t headroom) const {
  if (options_.quota_bytes == 0) return true;
  const uint64_t needed = bytes_used() + headroom + (writer_ ? kPassOverhead : 0);
  return needed <= options_.quota_bytes && bytes <= options_.quota_bytes - needed;
}

void PassSink::count_drop(uint64_t DropCounts::*cause, uint64_t count) {
  const std::lock_guard lock(mutex_);
  pass_drops_.*cause += count;
  totals_.report.drops.*cause += count;
}

uint64_t DropCounts::*PassSink::cause_of(const Error& error) {
  return error.code == ErrorCode::kNoSpace ? &DropCounts::disk_full : &DropCounts::io_error;
}

void PassSink::count_file_bytes() {
  const std::lock_guard lock(mutex_);
  totals_.report.file_bytes = bytes_used();
}

void PassSink::note(const Error& error) {
  const std::lock_guard lock(mutex_);
  if (totals_.first_error) return;
  totals_.first_error = error;
  totals_.report.first_error = error.describe();
}

PassSink::Totals PassSink::totals() const {
  const std::lock_guard lock(mutex_);
  return totals_;
}

void PassSink::hold_reserve() {
  auto file = FileDescriptor::open(reserve_path(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC);
  if (!file.ok()) return;  // there already, or no room: then the end of a pass may be lost on a full disk
  static constexpr std::array<std::byte, 64 << 10> kFill{};
  for (size_t at = 0; at < kReserveBytes; at += kFill.size())
    if (!write_all(file->get(), at, kFill, reserve_path()).ok()) return;
}

void PassSink::release_reserve() { ::unlink(reserve_path().c_str()); }

}  // namespace ttap
