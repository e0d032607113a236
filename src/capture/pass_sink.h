#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "capture/staged.h"
#include "store/segment_writer.h"
#include "ttap/recorder.h"

namespace ttap {

// The writer thread's side: takes staged records in order and makes passes of them. Whatever goes wrong is counted
// here and stays here. Used by one thread, but for totals().
class PassSink {
 public:
  struct Options {
    std::filesystem::path rank_directory;
    SegmentWriter::Options segment;  // its pace is set here
    WriteMode write = WriteMode::kAuto;
    uint64_t quota_bytes = 0;
    uint64_t batch_bytes = 0;  // a batch is flushed when its blobs reach this
    std::string begin_json;    // an object, kept at the start of every pass
  };
  explicit PassSink(Options options);

  // The record must stay in place until has_batch() is false again.
  void take(StagingRing::Record* record);
  bool has_batch() const { return writer_ && writer_->pending_rows() > 0; }
  bool batch_is_full() const;
  uint64_t batch_bytes() const { return options_.batch_bytes; }
  void flush();

  // What this side knows; the names are not part of it. Any thread may ask.
  struct Totals {
    Report report;
    std::optional<Error> first_error;
  };
  Totals totals() const;

  // After the last record.
  void close() { release_reserve(); }

 private:
  void begin_pass(const StagedBeginPass& begin);
  void end_pass(Ending ending, const DropCounts& producers);
  void take_event(uint32_t number, const EventRecord& event);
  void take_tensor(const StagedTensor& tensor);
  void take_piece(const StagedPayload& payload);
  void start_large(const StagedTensor& tensor);
  bool quota_allows(uint64_t bytes, uint64_t headroom) const;
  uint64_t bytes_used() const;
  void count_drop(uint64_t DropCounts::*cause, uint64_t count);
  void count_file_bytes();
  void note(const Error& error);
  static uint64_t DropCounts::*cause_of(const Error& error);
  void hold_reserve();
  void release_reserve();
  std::filesystem::path reserve_path() const { return options_.rank_directory / ".ttap-reserve"; }

  Options options_;
  DiskPace pace_;  // what is learned of the disk in one pass holds for the next
  std::optional<SegmentWriter> writer_;
  bool pass_open_ = false;                                 // also when its file could not be made,
  uint64_t DropCounts::*no_file_ = &DropCounts::io_error;  // and then why
  uint64_t finished_bytes_ = 0;                            // of earlier passes

  // The tensor whose pieces are arriving; its texts are copied, since its record is released before the last piece.
  struct Large;
  std::shared_ptr<Large> large_;

  // Of the batch that is not in the file yet; counted when it is.
  struct Batch {
    uint64_t tensors = 0;
    uint64_t tensor_bytes = 0;
    uint64_t deduplicated = 0;
    uint64_t over_quota = 0;
  };
  Batch batch_;

  mutable std::mutex mutex_;  // guards what follows, which other threads read
  DropCounts pass_drops_;
  Totals totals_;
};

}  // namespace ttap
