#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "capture/stable_bytes.h"
#include "capture/staged.h"
#include "store/graph/graph_export.h"
#include "store/segment/segment_writer.h"
#include "ttap/recorder.h"

namespace ttap {

// The writer thread's side: takes staged records in order and makes passes of them, of which several may be open.
// Whatever goes wrong is counted here and stays here. Used by one thread, but for totals().
class PassSink {
 public:
  struct Options {
    std::filesystem::path rank_directory;
    SegmentWriter::Options segment;    // its pace is set here
    Format format = Format::kSegment;  // see RecorderOptions
    WriteMode write = WriteMode::kAuto;
    uint64_t quota_bytes = 0;
    uint64_t batch_bytes = 0;  // a batch is flushed when its blobs reach this
    std::string begin_json;    // an object, kept at the start of every pass
  };
  explicit PassSink(Options options);

  // The record must stay in place until has_batch() is false again.
  void take(StagingRing::Record* record);
  bool has_batch() const;
  bool batch_is_full() const;  // of all passes together: they hold the ring together
  uint64_t batch_bytes() const { return options_.batch_bytes; }
  void flush();
  // What came from GPUs and is in the files: its memory is free again. When there is no batch.
  void release_device_memory() {
    if (device_staging_ != nullptr) device_staging_->release();
  }

  // What this side knows: neither the names nor what was dropped before the ring. Any thread may ask.
  struct Totals {
    Report report;
    std::optional<Error> first_error;
  };
  Totals totals() const;

  // Any thread may ask.
  StableBytes& stable_bytes() { return stable_bytes_; }

  // After the last record.
  void close() { release_reserve(); }

 private:
  // The tensor whose pieces are arriving; its texts are copied, since its record is released before the last piece.
  struct Large;
  // Of the batch that is not in the file yet; counted when it is.
  struct Batch {
    uint64_t tensors = 0;
    uint64_t tensor_bytes = 0;
    uint64_t deduplicated = 0;
    uint64_t over_quota = 0;
  };
  struct Open {
    std::optional<SegmentWriter> writer = {};               // none when its file could not be made,
    uint64_t DropCounts::*no_file = &DropCounts::io_error;  // and then why
    uint64_t flushes = 0;
    Batch batch = {};
    DropCounts drops = {};
    std::shared_ptr<Large> large = {};
    std::vector<std::pair<Hash128, uint64_t>> stable = {};  // bytes of its own that others may refer to: hash and size

    bool has_batch() const { return writer && writer->pending_rows() > 0; }
  };
  Open& open_pass(uint32_t number);

  void begin_pass(const StagedBeginPass& begin);
  void end_pass(const StagedEndPass& end);
  void convert(uint32_t number, uint64_t segment_bytes);
  void take_event(Open& pass, uint32_t number, const EventRecord& event);
  void take_call(Open& pass, const StagedCall& call);
  void take_tensor(Open& pass, const StagedTensor& tensor);
  void take_piece(Open& pass, const StagedPayload& payload);
  void take_awaited(Open& pass, const StagedTensor& staged);
  void take_parts(Open& pass, StagedTensor& tensor);
  cuda::DeviceStaging::Part next_part(cuda::DeviceStaging& staging);
  void lose_bytes_of_large(Open& pass, uint64_t DropCounts::*cause);
  void start_large(Open& pass, const StagedTensor& tensor);
  void take_elsewhere(Open& pass, const StagedTensor& tensor, TensorRecord record, uint32_t where);
  bool keeps_stable_bytes() const { return options_.format == Format::kSegment && options_.segment.deduplicate; }
  static void add_aliases(Open& pass, const StagedTensor& tensor, const TensorRecord& record);
  void flush(Open& pass);
  bool quota_allows(uint64_t bytes, uint64_t headroom) const;
  uint64_t bytes_used() const;
  void count_drop(Open& pass, uint64_t DropCounts::*cause, uint64_t count);
  void count_file_bytes();
  void note(const Error& error);
  static uint64_t DropCounts::*cause_of(const Error& error);
  void hold_reserve();
  void release_reserve();
  std::filesystem::path segment_path(uint32_t number) const;
  std::filesystem::path reserve_path() const { return options_.rank_directory / ".ttap-reserve"; }

  Options options_;
  DiskPace pace_;  // what is learned of the disk in one pass holds for the next
  GraphSteps graph_steps_;
  StableBytes stable_bytes_;
  std::map<uint32_t, Open> open_;
  cuda::DeviceStaging* device_staging_ = nullptr;  // once a tensor came through it
  uint64_t finished_bytes_ = 0;                    // of passes that have ended

  mutable std::mutex mutex_;  // guards what follows, which other threads read
  Totals totals_;
};

}  // namespace ttap
