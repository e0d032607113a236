#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "capture/copy_crew.h"
#include "capture/graph_pass.h"
#include "capture/name_table.h"
#include "capture/open_passes.h"
#include "capture/pass_sink.h"
#include "capture/place/coverage.h"
#include "capture/place/rank_directory.h"
#include "capture/process.h"
#include "capture/staged.h"
#include "capture/staged_body.h"
#include "capture/staging_ring.h"
#include "core/function_ref.h"
#include "core/logical_copy.h"
#include "cuda/device_staging.h"
#include "ttap/recorder.h"

namespace ttap {

// How much of a tensor is kept at its place, when the name asks for `level`.
inline Level level_at(const Place& place, Level level) {
  level = std::min(level, place.at_most.value_or(level));
  return place.group.empty() ? level : std::min(level, Level::kSketch);
}

// recorder.cpp has its life, passes.cpp its passes, stage.cpp what happens in capture(), stage_gpu.cpp that of tensors
// in the memory of a GPU.
class Recorder::Impl {
 public:
  static Result<std::unique_ptr<Impl>> create(const RecorderOptions& options);
  ~Impl();

  bool alive() const {
    return !closed_.load(std::memory_order_relaxed) && !ring_->is_given_up() && fork_count().load() == forks_at_start_;
  }
  // The disk hung, and the program was interrupted: the writer is left to itself, with all that it uses.
  bool is_given_up() const { return ring_->is_given_up(); }

  uint32_t begin_pass();
  void end_pass(Ending ending);
  uint32_t open_pass();
  void close_pass(uint32_t number, Ending ending);
  uint32_t skip_pass();
  bool wants(std::string_view name) { return alive() && names_.find(name).level().has_value(); }
  Status add_alias(std::string_view name, std::string_view alias);
  Status count_unsupported(std::string_view name, std::string_view reason, std::optional<uint32_t> pass);
  Status set_source_json(std::string json);
  Status capture(std::string_view name, const TensorView& tensor, const Place& place);
  Status capture(const Event& event, const TensorView& tensor, const Place& place);
  // Of a call that is captured into a CUDA graph.
  Status capture_in_graph(GraphPass& graph, const Event& event, const TensorView& tensor, const Place& place);
  Event begin_event(const EventInfo& info);
  void end_event(const Event& event, const CallInfo& call);
  Status flush();
  Status close(Ending open_passes);
  Report report() const;
  void set_graphs(const Report::Graphs& graphs);
  static std::string_view name_of(const Event& event) { return static_cast<const NameEntry*>(event.name)->name; }

  const std::filesystem::path rank_directory;
  const uint32_t run;  // of the runs in the directory
  const bool strict;
  const uint64_t id;  // unique in the process
  const unsigned forks_at_start_ = fork_count().load();

 private:
  Impl(const RecorderOptions& options, RankStart start, Filter filter, std::unique_ptr<StagingRing> ring,
       PassSink::Options sink);

  Status start_threads();
  // Control records always wait: the order of passes does not depend on the policy for tensors. `admit` runs under the
  // ring's lock and may still change `control`.
  template <class T>
  void send(const T& control, FunctionRef<bool()> admit) {
    auto* record = ring_->reserve(sizeof(T), StagingRing::Wait::kForRoom, admit);
    if (record == nullptr) return;
    new (record->body()) T(control);
    ring_->publish(record, true);
  }
  enum class Beginning : uint8_t { kEndTheCurrent, kUnlessThereIsOne };
  uint32_t begin_current(Beginning beginning);

  // Room for a record of a pass: the one given, or the current one.
  using WhichPass = std::optional<uint32_t>;
  enum class Refusal : uint8_t { kNone, kFull, kClosed, kNoPass };
  struct Room {
    StagingRing::Record* record = nullptr;
    Refusal refusal = Refusal::kNone;
  };
  using Numbering = FunctionRef<void(const OpenPasses::Found&)>;  // under the ring's lock
  Room try_reserve_in_pass(uint64_t bytes, StagingRing::Wait wait, WhichPass which, Numbering number);
  // The same, beginning the current pass when it is wanted and there is none.
  Room reserve_in_pass(uint64_t bytes, StagingRing::Wait wait, WhichPass which, Numbering number);

  // Counts `cause`, or `late` when that pass has ended. `on_open` may still number what is lost.
  // False: it was late.
  bool count_drop(WhichPass which, uint64_t DropCounts::*cause, uint64_t count, Numbering on_open);
  bool count_drop(WhichPass which, uint64_t DropCounts::*cause, uint64_t count = 1) {
    return count_drop(which, cause, count, [](const OpenPasses::Found&) {});
  }
  Status unsupported(WhichPass which, Error error);
  Status late(const NameEntry& entry, uint32_t pass) const;

  // A fingerprint that a source has handed over is ours, whatever becomes of its tensor.
  class Later {
   public:
    explicit Later(const Place& place)
        : pending_(place.on_gpu != nullptr ? place.on_gpu->later : cuda::PendingResult{}) {}
    ~Later() {
      if (pending_) cuda::ResultPool::of_process().abandon(pending_);
    }
    Later(const Later&) = delete;
    Later& operator=(const Later&) = delete;
    explicit operator bool() const { return static_cast<bool>(pending_); }
    cuda::PendingResult take() { return std::exchange(pending_, {}); }

   private:
    cuda::PendingResult pending_;
  };

  Status stage(NameEntry& entry, const Event* event, Level level, const TensorView& tensor, const Place& place,
               Later& later);
  // A record was refused its room: counts it, and gives what comes after it the right number.
  Status refused(Refusal refusal, const StagedTensor& staged, NameEntry& entry, const Event* event);
  Status stage_in_pieces(const StagedTensor& staged, WhichPass which, const LogicalCopy& source,
                         const TensorView& tensor, const Place& place,
                         FunctionRef<void(StagedTensor&, const OpenPasses::Found&)> number);
  Status stage_bytes_of_gpu(StagedTensor& staged, NameEntry& entry, const Event* event, const TensorView& tensor,
                            const Place& place, Numbering number);
  Status fingerprint_on_gpu(StagedTensor& staged, const TensorView& tensor, const OnGpu& gpu);
  Result<cuda::PendingResult> place_for_result(int device, cuda::Stream stream);
  Result<cuda::DeviceStaging*> device_staging();
  static void fill_texts(StagedTensor& staged, BodyWriter& body, const TensorView& tensor, const Place& place);
  StagingRing::Wait wait_policy() const {
    return when_full_ == WhenFull::kBlock ? StagingRing::Wait::kForRoom : StagingRing::Wait::kNever;
  }
  Status background_error() const;
  void flush_is_done(uint64_t ticket);
  // Under flush_mutex_. False: the recorder is given up.
  bool wait_for_writer(std::unique_lock<std::mutex>& lock, FunctionRef<bool()> is_done);

  const WhenFull when_full_;
  const uint64_t staging_bytes_;
  const uint64_t device_staging_bytes_;
  NameTable names_;
  std::unique_ptr<StagingRing> ring_;
  PassSink sink_;

  OpenPasses passes_;  // under the ring's lock

  std::mutex flush_mutex_;
  std::condition_variable flushed_;
  uint64_t flush_sent_ = 0;
  uint64_t flush_done_ = 0;
  bool writer_is_done_ = false;  // guarded by flush_mutex_, as the two above

  mutable std::mutex source_mutex_;  // guards the next two
  std::string source_json_;
  Report::Graphs graphs_;

  FileDescriptor directory_lock_;
  std::mutex join_mutex_;
  Status close_status_;              // guarded by join_mutex_
  std::atomic<bool> closed_{false};  // set under the ring's lock: from then on only close() reserves
  std::thread writer_thread_;
  CopyCrew crew_;

  std::mutex device_mutex_;
  std::unique_ptr<cuda::DeviceStaging> device_staging_;  // made under device_mutex_ when it is first wanted
};

}  // namespace ttap
