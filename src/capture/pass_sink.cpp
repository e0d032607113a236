#include "capture/pass_sink.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "capture/convert_pass.h"
#include "capture/large_tensor.h"
#include "store/sources/run_layout.h"

namespace ttap {
namespace {

constexpr size_t kBatchRows = 512;
// Kept on disk as an empty promise, so that a full disk still has room to end the pass properly.
constexpr size_t kReserveBytes = 256 << 10;

// What the header, the end and the index of a pass take, roughly; kept free while it is written.
constexpr uint64_t kPassOverhead = 2048;
// What a flush adds to the index: strings, events, tensors, groups, uses, calls.
constexpr uint64_t kFlushOverhead = 6 * sizeof(format::IndexRow);
// Headers and padding of a string, and of those that a row may bring.
constexpr uint64_t kOneStringOverhead = 16;
constexpr uint64_t kStringOverhead = 8 * kOneStringOverhead;

// What blobs leave free for rows, so that fingerprints go on after the bytes stop.
uint64_t quota_headroom(uint64_t quota) { return quota / 4; }

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
  record.value = tensor.value;
  record.group = tensor.group;
  return record;
}

void set_fingerprint(TensorRecord& record, const Fingerprint& fingerprint) {
  record.has_fingerprint = true;
  record.fingerprint = fingerprint;
}

}  // namespace

PassSink::PassSink(Options options)
    : options_(std::move(options)),
      pace_(options_.write == WriteMode::kAuto ? DiskPace::Rule::kWhileFast : DiskPace::Rule::kAlways),
      stable_bytes_(options_.rank_directory) {
  if (options_.write != WriteMode::kBuffered) options_.segment.pace = &pace_;
}

PassSink::Open& PassSink::open_pass(uint32_t number) {
  const auto found = open_.find(number);
  TTAP_CHECK(found != open_.end());  // a record stands between the begin and the end of its pass
  return found->second;
}

bool PassSink::has_batch() const {
  return std::ranges::any_of(open_, [](const auto& entry) { return entry.second.has_batch(); });
}

bool PassSink::batch_is_full() const {
  size_t rows = 0;
  uint64_t blob_bytes = 0;
  for (const auto& [number, pass] : open_) {
    if (!pass.writer) continue;
    rows += pass.writer->pending_rows();
    blob_bytes += pass.writer->pending_blob_bytes();
  }
  return rows >= kBatchRows || blob_bytes >= options_.batch_bytes;
}

void PassSink::take(StagingRing::Record* record) {
  const StagedHead head = staged_as<StagedHead>(record);
  switch (head.kind) {
    case StagedKind::kBeginPass: return begin_pass(staged_as<StagedBeginPass>(record));
    case StagedKind::kEndPass: return end_pass(staged_as<StagedEndPass>(record));
    case StagedKind::kEvent: {
      const auto& event = staged_as<StagedEvent>(record);
      return take_event(
          open_pass(head.pass), event.number,
          {event.name->name, event.kind, event.call, event.parent, event.thread, event.time_ns, event.stack});
    }
    case StagedKind::kCall: return take_call(open_pass(head.pass), staged_as<StagedCall>(record));
    case StagedKind::kTensor: {
      const auto& tensor = staged_as<StagedTensor>(record);
      return tensor.awaited ? take_awaited(open_pass(head.pass), tensor) : take_tensor(open_pass(head.pass), tensor);
    }
    case StagedKind::kPiece: return take_piece(open_pass(head.pass), staged_as<StagedPiece>(record).payload);
    case StagedKind::kFlush:
    case StagedKind::kStop: return;
  }
}

void PassSink::begin_pass(const StagedBeginPass& begin) {
  if (begin.before) end_pass(*begin.before);
  {
    const std::lock_guard lock(mutex_);
    ++totals_.report.passes;
  }
  const uint32_t number = begin.head.pass;
  Open pass;
  if (!quota_allows(options_.begin_json.size() + kPassOverhead, 0)) {
    pass.no_file = &DropCounts::quota;
    open_.emplace(number, std::move(pass));
    return;
  }
  const auto create = [&] {
    return SegmentWriter::create(segment_path(number), number, begin.unix_ns, options_.begin_json, options_.segment);
  };
  auto first_try = create();
  const bool again = !first_try.ok() && first_try.error().code == ErrorCode::kNoSpace;
  if (again) release_reserve();
  auto writer = again ? create() : std::move(first_try);
  if (writer.ok()) {
    pass.writer.emplace(std::move(writer).value());
    hold_reserve();
  } else {
    pass.no_file = cause_of(writer.error());
    note(writer.error());
  }
  open_.emplace(number, std::move(pass));
}

void PassSink::end_pass(const StagedEndPass& end) {
  const uint32_t number = end.head.pass;
  Open& pass = open_pass(number);
  flush(pass);
  pass.drops += end.drops;
  std::optional<uint64_t> segment_bytes;  // when it is finished
  if (pass.writer) {
    const std::string end_json = to_json(EndRecord{.ending = end.ending, .drops = pass.drops});
    const Status finished = pass.writer->finish(end_json, [this] { release_reserve(); });
    if (!finished.ok()) note(finished.error());
    if (finished.ok()) segment_bytes = pass.writer->file_bytes();
    // Bytes that could not be written are not there, whatever was meant to be.
    if (finished.ok() && end.ending == Ending::kComplete && keeps_stable_bytes())
      for (const auto& [hash, size] : pass.stable)
        if (pass.writer->holds(hash)) stable_bytes_.add(hash, size, number);
    finished_bytes_ += pass.writer->file_bytes();
  } else {
    const std::lock_guard lock(mutex_);
    ++totals_.report.lost_passes;
    totals_.report.lost_pass_drops += pass.drops;
  }
  open_.erase(number);
  if (segment_bytes && options_.format != Format::kSegment) convert(number, *segment_bytes);
  {
    const std::lock_guard lock(mutex_);
    if (totals_.report.first_pass_bytes == 0) totals_.report.first_pass_bytes = finished_bytes_;
  }
  count_file_bytes();
  if (!open_.empty()) hold_reserve();  // the others want to end properly, too
}

void PassSink::convert(uint32_t number, uint64_t segment_bytes) {
  const uint64_t used = bytes_used();
  const uint64_t quota = options_.quota_bytes;
  const uint64_t room = quota == 0 ? UINT64_MAX : quota - std::min(used, quota);
  const auto converted =
      convert_pass(segment_path(number),
                   {.format = options_.format, .room = room, .sync = options_.segment.sync, .steps = &graph_steps_});
  if (!converted.ok()) return note(converted.error());
  finished_bytes_ += converted->bytes;
  if (converted->segment_removed) finished_bytes_ -= segment_bytes;
}

std::filesystem::path PassSink::segment_path(uint32_t number) const {
  return options_.rank_directory / (pass_stem(number) + ".ttap");
}

void PassSink::take_event(Open& pass, uint32_t number, const EventRecord& event) {
  const uint64_t cost =
      sizeof(format::EventRow) + kStringOverhead + event.name.size() + event.kind.size() + event.stack.size();
  if (!pass.writer || !quota_allows(cost, 0)) return count_drop(pass, &DropCounts::events, 1);
  pass.writer->add_event(number, event);
}

void PassSink::take_call(Open& pass, const StagedCall& call) {
  // An event that is not there is counted already.
  if (!pass.writer || !pass.writer->has_event(call.event)) return;
  uint64_t cost = sizeof(format::CallRow) + kStringOverhead + call.arguments.size() + call.results.size() +
                  call.notes.size() + call.uses.size() * (sizeof(format::UseRow) + 2 * kOneStringOverhead);
  for (const Use& use : call.uses) cost += use.role.size() + use.path.size();
  const bool added =
      quota_allows(cost, 0) && pass.writer->add_call(call.event, {call.arguments, call.results, call.notes,
                                                                  call.forward, call.duration_ns, call.uses});
  if (!added) count_drop(pass, &DropCounts::events, 1);
}

void PassSink::take_tensor(Open& pass, const StagedTensor& tensor) {
  const uint64_t rows = row_count(tensor.aliases);
  // No file could be made for this pass: the reason is noted, its tensors are lost.
  if (!pass.writer) return count_drop(pass, pass.no_file, rows);
  const uint64_t sketch_cost = tensor.level >= Level::kSketch ? sizeof(format::SketchRow) : 0;
  uint64_t row_cost = sizeof(format::TensorRow) + rows * sketch_cost + sizeof(format::EventRow) + kStringOverhead +
                      tensor.name->name.size() + tensor.role.size() + tensor.path.size() + tensor.device.size() +
                      tensor.shape.size_bytes() + tensor.strides.size_bytes() + tensor.group.size() +
                      (tensor.group.empty() ? 0 : rows * sizeof(format::GroupRow));
  if (tensor.aliases != nullptr)
    for (const std::string& alias : *tensor.aliases) row_cost += sizeof(format::TensorRow) + 16 + alias.size();
  if (!quota_allows(row_cost, 0)) return count_drop(pass, &DropCounts::quota, rows);
  if (tensor.own_event)
    pass.writer->add_event(tensor.event,
                           {tensor.name->name, "capture", tensor.call, kNoEvent, tensor.thread, tensor.time_ns, {}});
  if (!tensor.payload.last) return start_large(pass, tensor);

  TensorRecord record = record_of(tensor);
  if (tensor.level >= Level::kFingerprint) set_fingerprint(record, tensor.payload.fingerprint);
  if (!keeps_sketch(tensor.level)) record.fingerprint.has_sketch = false;  // of one that was taken already
  record.has_bytes = tensor.level == Level::kFull && !tensor.bytes_lost;
  if (tensor.bytes_lost) count_drop(pass, &DropCounts::unsupported, rows);
  if (tensor.elsewhere != kNoNumber) return take_elsewhere(pass, tensor, record, tensor.elsewhere);
  const bool known = record.has_bytes && pass.writer->has_blob(record.fingerprint.hash);
  if (tensor.stable && record.has_bytes && !known) {
    // Of a GPU, where the fingerprint comes with the bytes; or captured when the pass that has them was still open.
    if (const auto where = stable_bytes_.find(record.fingerprint.hash, record.byte_count))
      return take_elsewhere(pass, tensor, record, *where);
    if (record.byte_count > 0) pass.stable.emplace_back(record.fingerprint.hash, record.byte_count);
  }
  if (record.has_bytes && !known && !quota_allows(tensor.byte_count + row_cost, quota_headroom(options_.quota_bytes))) {
    record.has_bytes = false;
    pass.batch.over_quota += rows;
  }
  pass.writer->add_tensor(record, tensor.time_ns, tensor.payload.bytes);
  ++pass.batch.tensors;
  pass.batch.tensor_bytes += tensor.byte_count;
  if (known && tensor.byte_count > 0) ++pass.batch.deduplicated;
  add_aliases(pass, tensor, record);
}

void PassSink::take_elsewhere(Open& pass, const StagedTensor& tensor, TensorRecord record, uint32_t where) {
  record.has_bytes = true;  // for those who count
  pass.writer->add_tensor_elsewhere(record, tensor.time_ns, where);
  ++pass.batch.tensors;
  ++pass.batch.deduplicated;
  pass.batch.tensor_bytes += record.byte_count;
  add_aliases(pass, tensor, record);
}

void PassSink::add_aliases(Open& pass, const StagedTensor& tensor, const TensorRecord& record) {
  if (tensor.aliases == nullptr) return;
  for (const std::string& alias : *tensor.aliases) {
    pass.writer->add_alias_row(alias);
    ++pass.batch.tensors;
    pass.batch.tensor_bytes += record.byte_count;
    if (record.has_bytes && record.byte_count > 0) ++pass.batch.deduplicated;
  }
}

void PassSink::start_large(Open& pass, const StagedTensor& tensor) {
  // Of every pass: the pieces could not be released while a batch waits in front of them.
  flush();
  pass.large = std::make_shared<Large>(Large{tensor,
                                             {tensor.shape.begin(), tensor.shape.end()},
                                             {tensor.strides.begin(), tensor.strides.end()},
                                             std::string(tensor.role),
                                             std::string(tensor.path),
                                             std::string(tensor.device),
                                             std::string(tensor.group),
                                             false,
                                             false});
  Large& large = *pass.large;
  large.staged.shape = large.shape;
  large.staged.strides = large.strides;
  large.staged.role = large.role;
  large.staged.path = large.path;
  large.staged.device = large.device;
  large.staged.group = large.group;
  if (tensor.level == Level::kFull) {
    large.over_quota = !quota_allows(tensor.byte_count, quota_headroom(options_.quota_bytes));
    if (!large.over_quota) {
      const Status begun = pass.writer->begin_large(tensor.byte_count);
      large.keeping = begun.ok();
      if (!begun.ok()) {
        note(begun.error());
        count_drop(pass, cause_of(begun.error()), row_count(tensor.aliases));
      }
    }
  }
  take_piece(pass, tensor.payload);
}

void PassSink::take_piece(Open& pass, const StagedPayload& payload) {
  if (!pass.large) return;  // its first piece was dropped
  Large& large = *pass.large;
  const uint64_t rows = row_count(large.staged.aliases);
  if (large.keeping) {
    const Status written = pass.writer->write_large(payload.bytes);
    if (!written.ok()) {
      large.keeping = false;
      note(written.error());
      count_drop(pass, cause_of(written.error()), rows);
    }
  }
  if (!payload.last) return;
  TensorRecord record = record_of(large.staged);
  set_fingerprint(record, payload.fingerprint);
  if (large.keeping && large.staged.stable && !pass.writer->has_blob(record.fingerprint.hash)) {
    if (const auto where = stable_bytes_.find(record.fingerprint.hash, record.byte_count)) {
      // Its hash is known only now: the bytes are taken back.
      pass.writer->abandon_large();
      take_elsewhere(pass, large.staged, record, *where);
      pass.large.reset();
      return;
    }
  }
  if (large.keeping) {
    record.has_bytes = true;
    if (pass.writer->has_blob(record.fingerprint.hash)) ++pass.batch.deduplicated;
    pass.writer->add_tensor_of_large(record, large.staged.time_ns);
    if (large.staged.stable) pass.stable.emplace_back(record.fingerprint.hash, record.byte_count);
  } else {
    pass.writer->add_tensor(record, large.staged.time_ns, {});
  }
  ++pass.batch.tensors;
  pass.batch.tensor_bytes += record.byte_count;
  if (large.over_quota) pass.batch.over_quota += rows;
  add_aliases(pass, large.staged, record);
  pass.large.reset();
}

void PassSink::flush() {
  for (auto& [number, pass] : open_) flush(pass);
}

void PassSink::flush(Open& pass) {
  if (!pass.has_batch()) return;
  ++pass.flushes;
  const SegmentWriter::Outcome outcome = pass.writer->flush();
  const Batch batch = std::exchange(pass.batch, {});
  count_file_bytes();
  if (outcome.error) {
    note(*outcome.error);
    count_drop(pass, cause_of(*outcome.error), outcome.tensors_without_bytes + outcome.tensors_lost);
    count_drop(pass, &DropCounts::events, outcome.events_lost);
  }
  // A batch is in the file whole, or not at all.
  if (outcome.tensors_lost > 0 || outcome.events_lost > 0) return;
  count_drop(pass, &DropCounts::quota, batch.over_quota);
  const std::lock_guard lock(mutex_);
  totals_.report.tensors += batch.tensors;
  totals_.report.tensor_bytes += batch.tensor_bytes;
  totals_.report.deduplicated += batch.deduplicated;
}

uint64_t PassSink::bytes_used() const {
  uint64_t used = finished_bytes_;
  for (const auto& [number, pass] : open_)
    if (pass.writer) used += pass.writer->file_bytes() + pass.writer->pending_bytes();
  return used;
}

bool PassSink::quota_allows(uint64_t bytes, uint64_t headroom) const {
  if (options_.quota_bytes == 0) return true;
  uint64_t needed = bytes_used() + headroom;
  for (const auto& [number, pass] : open_)
    if (pass.writer) needed += kPassOverhead + pass.flushes * kFlushOverhead;
  return needed <= options_.quota_bytes && bytes <= options_.quota_bytes - needed;
}

void PassSink::count_drop(Open& pass, uint64_t DropCounts::*cause, uint64_t count) {
  pass.drops.*cause += count;
  const std::lock_guard lock(mutex_);
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
