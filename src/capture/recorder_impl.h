#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "capture/copy_crew.h"
#include "capture/coverage.h"
#include "capture/name_table.h"
#include "capture/pass_sink.h"
#include "capture/process.h"
#include "capture/staged.h"
#include "capture/staged_body.h"
#include "capture/staging_ring.h"
#include "core/function_ref.h"
#include "core/logical_copy.h"
#include "ttap/recorder.h"

namespace ttap {

// recorder.cpp has its life and its passes, stage.cpp what happens in capture().
class Recorder::Impl {
 public:
  static Result<std::unique_ptr<Impl>> create(const RecorderOptions& options);
  ~Impl();

  bool alive() const { return !closed_.load(std::memory_order_relaxed) && fork_count().load() == forks_at_start_; }

  uint32_t begin_pass();
  void end_pass(Ending ending);
  bool wants(std::string_view name) { return alive() && names_.find(name).level.has_value(); }
  Status capture(std::string_view name, const TensorView& tensor, const Place& place);
  Status capture(const Event& event, const TensorView& tensor, const Place& place);
  Event begin_event(const EventInfo& info);
  Status flush();
  Status close();
  Report report() const;

  const std::filesystem::path rank_directory;
  const bool strict;
  const unsigned forks_at_start_ = fork_count().load();

 private:
  Impl(const RecorderOptions& options, RankStart start, Filter filter, std::unique_ptr<StagingRing> ring,
       PassSink::Options sink);

  Status start_threads();
  template <class T>
  void send(const T& control, FunctionRef<void()> under_lock);
  uint32_t begin_pass_locked();
  void send_end_of_pass(Ending ending);
  void ensure_pass();
  // Reserves in the open pass; `number` is called under the ring's lock. Null when there is no room, when the recorder
  // is closed, and with `no_pass` set when no pass is open.
  StagingRing::Record* try_reserve_in_pass(uint64_t bytes, StagingRing::Wait wait, FunctionRef<void()> number,
                                           bool& no_pass);
  // The same, beginning a pass when none is open.
  StagingRing::Record* reserve_in_pass(uint64_t bytes, StagingRing::Wait wait, FunctionRef<void()> number);
  Status unsupported(Error error);
  Status stage(NameEntry& entry, const Event* event, const TensorView& tensor, const Place& place);
  Status stage_in_pieces(const StagedTensor& staged, const LogicalCopy& source, const TensorView& tensor,
                         const Place& place, FunctionRef<void(StagedTensor&)> number);
  static void fill_texts(StagedTensor& staged, BodyWriter& body, const TensorView& tensor, const Place& place);
  StagingRing::Wait wait_policy() const {
    return when_full_ == WhenFull::kBlock ? StagingRing::Wait::kForRoom : StagingRing::Wait::kNever;
  }
  Status background_error() const;
  void flush_is_done(uint64_t ticket);

  const WhenFull when_full_;
  NameTable names_;
  std::unique_ptr<StagingRing> ring_;
  PassSink sink_;

  // Changed only under the ring's lock (inside `admit`), so it agrees with the order of the records.
  std::atomic<bool> pass_open_{false};
  std::atomic<uint32_t> pass_number_{0};
  uint32_t next_pass_ = 0;
  uint32_t next_event_ = 0;
  std::atomic<uint64_t> pass_start_ns_{0};
  // Dropped before they reached the ring, since the last end of a pass.
  std::atomic<uint64_t> staging_full_{0};
  std::atomic<uint64_t> unsupported_{0};
  std::atomic<uint64_t> events_dropped_{0};
  std::mutex pass_mutex_;  // one begin or end at a time

  std::mutex flush_mutex_;
  std::condition_variable flushed_;
  uint64_t flush_sent_ = 0;
  uint64_t flush_done_ = 0;

  FileDescriptor directory_lock_;
  std::mutex join_mutex_;
  Status close_status_;              // guarded by join_mutex_
  std::atomic<bool> closed_{false};  // set under the ring's lock: nothing is reserved behind the stop record
  std::thread writer_thread_;
  CopyCrew crew_;
};

}  // namespace ttap
