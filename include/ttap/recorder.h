#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ttap/api.h"
#include "ttap/record.h"
#include "ttap/result.h"
#include "ttap/run.h"
#include "ttap/tensor_view.h"

namespace ttap {

// What capture() does when the staging memory is full.
enum class WhenFull : uint8_t {
  kBlock,  // wait for the writer: nothing is lost
  kDrop,   // go on at once: the tensor is counted as dropped
};

// How the bytes of large tensors, of 512 KiB and more, reach the disk. What the file system cannot do is done buffered.
enum class WriteMode : uint8_t {
  kAuto,      // directly for as long as the disk takes 0.5 GB/s; a slower one is written buffered for the next 4 GiB
  kDirect,    // round the page cache: costs hardly any processor time, and keeps the disk's pace
  kBuffered,  // into the page cache, which takes a burst at once, for more than half a second of a processor per GiB
};

struct LevelRule {
  std::string pattern;  // a PCRE2 pattern, searched for in the name
  Level level = Level::kFull;
};

struct RecorderOptions {
  // Where runs go; made if missing. One that holds a run gets a new run beside it, in run00002, run00003, …; the ranks
  // of one launch record into the same one, and so does who was started by a process that is recording into it.
  std::filesystem::path directory = {};
  bool append = false;                // go on in the newest run instead: passes that are there are counted on from
  std::optional<uint32_t> run = {};   // go on in just this one, made if missing
  std::optional<uint32_t> rank = {};  // default: RANK, OMPI_COMM_WORLD_RANK or SLURM_PROCID, else 0
  std::optional<uint32_t> rank_count = {};  // default: WORLD_SIZE, OMPI_COMM_WORLD_SIZE or SLURM_NTASKS, else 1
  // Set: the rank's directory is called worldsize{W}_global_rank{R}, as those who dump graphs know it, instead of
  // rank{R}_pid{P}. A second process at the same time gets one with its pid behind it.
  std::optional<uint32_t> world_size = {};

  // Which names are recorded: those in which any pattern is found. None given: every name; an empty list: no name.
  std::optional<std::vector<std::string>> filter = {};
  Level level = Level::kFull;
  std::vector<LevelRule> level_rules = {};  // the first that matches overrides `level`

  // What the passes end up as. Every pass is recorded as a segment, which survives a crash, and exported when it has
  // ended. The segment then stays beside it only when it says more: a tensor has no bytes, something was dropped, the
  // pass was aborted, or calls have arguments, results or notes. Graphs as kNpy are described in full by their
  // index.json. If the export fails (quota_bytes must have room for both) it stays alone, and the error is that of
  // flush() and close().
  Format format = Format::kSegment;

  // All memory between capture() and the disk; at least 64 KiB. More absorbs longer bursts, less stays in the caches.
  uint64_t staging_bytes = uint64_t{64} << 20;
  // For tensors on GPUs whose bytes are kept: memory of each GPU that has some; at least 64 KiB. Beside it there are
  // then once more `staging_bytes` of pinned memory. Both are allocated when the first such tensor comes.
  // Also what the taps in one CUDA graph may keep of its tensors.
  uint64_t device_staging_bytes = uint64_t{256} << 20;
  WhenFull when_full = WhenFull::kBlock;
  WriteMode write = WriteMode::kAuto;
  uint64_t quota_bytes = 0;          // for everything this process writes; 0: no limit
  bool deduplicate = true;           // the same bytes are stored once per pass
  bool sync = false;                 // fdatasync each pass before it gets its final name
  bool strict = false;               // capture() throws instead of counting
  std::string metadata_json = "{}";  // an object about the program, kept in the run and in every pass

  // `base` with variables of the environment in place of what has its default value: TTAP_DIR, and with it
  // TTAP_RUN_NUMBER (`run`), TTAP_APPEND (0, 1), TTAP_LEVEL (a level, or a JSON object {pattern: level} in place of
  // `level_rules`), TTAP_FILTER (a JSON list, or one pattern), TTAP_FORMAT (ttap, pt, safetensors, npy),
  // TTAP_STAGING_BYTES, TTAP_DEVICE_STAGING_BYTES, TTAP_WHEN_FULL (block, drop), TTAP_WRITE (auto, direct, buffered),
  // TTAP_QUOTA_BYTES, TTAP_STRICT (0, 1). Sizes take K, M, G, T (powers of 1024).
  // With TTAP_OVERRIDE=1, which `ttap run` sets, they replace what the program has chosen too.
  TTAP_API static Result<RecorderOptions> from_environment(RecorderOptions base);
};

struct TensorOnGpu;
class GraphPasses;
class RecorderOpSink;

// Where a tensor in the memory of a GPU was made. It is read in stream order: what is enqueued there after capture()
// cannot change what is recorded, the memory may be given back in stream order as soon as capture() has returned, and
// the caller does not wait. Where there is no room, the stream does (kBlock), or the tensor is dropped. A stream that
// is being captured into a graph is left alone: that is an error.
struct OnGpu {
  int device = 0;
  void* stream = nullptr;  // cudaStream_t; null is the legacy default stream
  // How many rows (of the first axis) are alive, in the memory of the GPU when the stream gets there; null: all.
  const void* rows = nullptr;
  bool rows_are_64_bit = true;  // else 32
};

// Where a tensor stands within its event.
struct Place {
  std::string_view role = "out";
  std::string_view path = {};  // see append_path()
  std::string_view device = "cpu";
  // Keep no more than this of the tensor; at kMeta its `data` is not touched and may be null.
  std::optional<Level> at_most = {};
  // The source's number of this value, unique in the pass, by which Use::value refers to it; 0: none.
  uint32_t value = 0;
  // Its fingerprint, when the source has taken it already; read at level kFingerprint, where the data is then not.
  const Fingerprint* known = nullptr;
  std::optional<OnGpu> gpu = {};  // set: the tensor's data is there
  // For TensorTap's own sources: what they have begun with a tensor on a GPU, whose data is then not read here.
  const TensorOnGpu* on_gpu = nullptr;
  // It is the same in most passes (a parameter): bytes that a segment of this recorder holds since a pass that has
  // ended well are not stored again, and the row says in which pass they are. Without effect when `deduplicate` is off.
  bool stable = false;
  // Set: these are the values of a quantized tensor (TensorRecord::group), of which no more than the fingerprint is
  // kept: its parts have the bytes.
  std::string_view group = {};
};

// An event of an open pass, to hang tensors on. Plain data; good until its pass ends.
struct Event {
  uint32_t number = kNoEvent;  // kNoEvent too when the event itself was dropped
  uint32_t call = 0;
  uint32_t pass = 0;
  const void* name = nullptr;  // the recorder's; null when the filter rejects the name, or its pass is not open
  uint64_t recorder = 0;       // whose it is, unique in the process: another one refuses it
  Level level = Level::kFull;  // of its tensors
  uint64_t start_ns = 0;       // on the recorder's clock
  uint64_t graph = 0;          // the CUDA graph that it was captured into; 0: none

  bool wanted() const { return name != nullptr; }
};

struct EventInfo {
  std::string_view name;
  std::string_view kind = "op";
  Event parent = {};  // the caller
  std::string_view stack = {};
  std::optional<uint32_t> pass = {};  // default: the current one, begun by itself when there is none
  std::optional<Level> level = {};    // set: the source has decided; filter and level rules are not asked
  // A call that is done again (activation checkpointing): numbered apart from the others, so its tensors need roles of
  // their own.
  bool again = false;
  // What captured_graph() gave: the call happens while that graph is captured, and its tensors have values when it is
  // replayed. The event is in the pass as always, its tensors there at level kMeta, and both are in the pass that each
  // replay makes.
  uint64_t graph = 0;
};

// The end of a call; see EventRecord.
struct CallInfo {
  std::string_view arguments = {};
  std::string_view results = {};
  std::string_view notes = {};
  Event forward = {};  // of the same pass, or it is left out
  std::span<const Use> uses = {};
};

// What a recorder saw, kept and did not keep: its coverage.
struct TTAP_API Report {
  uint64_t passes = 0;
  uint64_t tensors = 0;       // recorded, at whatever level
  uint64_t tensor_bytes = 0;  // of those, before deduplication
  uint64_t deduplicated = 0;  // tensors whose bytes were there already
  uint64_t file_bytes = 0;    // written
  uint64_t names_seen = 0;
  uint64_t names_recorded = 0;  // that the filter let through
  std::vector<std::pair<std::string, uint64_t>> patterns =
      {};  // of filter and level rules, with the names each matched
  DropCounts drops = {};
  uint64_t lost_passes = 0;         // of which no file could be made,
  DropCounts lost_pass_drops = {};  // and what of `drops` was theirs
  uint64_t first_pass_bytes = 0;    // of the files of the first pass that has ended
  std::string first_error = {};     // of the background threads
  uint64_t staging_peak_bytes = 0;
  // CUDA graphs with taps in them.
  struct Graphs {
    uint64_t graphs = 0;
    uint64_t replays = 0;     // recorded, each as a pass
    uint64_t lost = 0;        // overwritten before they were read, or torn
    uint64_t not_copied = 0;  // tensors kept as fingerprints, since the bytes of their graph were too many
    uint64_t failed = 0;      // whose replays could not be recorded: no memory, or the capture had failed
  };
  Graphs graphs = {};

  // One line, then one for everything that was not kept.
  std::string describe() const;
};

// Records tensors into a run directory. capture() copies the tensor, takes its fingerprint on the way and returns; a
// thread of the recorder deduplicates and writes, and a few more help to copy large tensors. Every method may be called
// from any thread. A process forked from the recording one records nothing.
class TTAP_API Recorder {
 public:
  static Result<std::unique_ptr<Recorder>> create(const RecorderOptions& options);
  ~Recorder();  // closes; errors are then only in the run's coverage.json
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // A pass is one step of the program and one file. Numbers count up, also over empty, aborted and skipped passes.
  //
  // The current pass: beginning one ends the one before it, and what is captured outside a pass begins one by itself.
  uint32_t begin_pass();
  void end_pass(Ending ending = Ending::kComplete);

  // A pass beside the current one, for EventInfo::pass; any number may be open, e.g. one for each thread of a server.
  // Closing one that is not open does nothing. What comes for a pass that has ended is not recorded, and counted as
  // DropCounts::late.
  uint32_t open_pass();
  void close_pass(uint32_t number, Ending ending = Ending::kComplete);
  // The number of a step that is not recorded: no file is made of it, and the open passes stay open.
  uint32_t skip_pass();

  // Whether a tensor of this name would be kept at all: decided once per name.
  bool wants(std::string_view name);

  // One tensor as an event of its own; the name, role and path must be those of a Key. Never fails the program: what
  // cannot be recorded is counted. (With `strict` it throws std::runtime_error.)
  void capture(std::string_view name, const TensorView& tensor, const Place& place = {});
  // The same, and the error is the caller's.
  Status try_capture(std::string_view name, const TensorView& tensor, const Place& place = {});

  // A shared module has several names. Each tensor of `name` recorded from now on is also found under `alias`: a row of
  // its own, counted as a tensor, with the same event and the same bytes. The filter is asked for `name` only. What is
  // an alias already stays one; kInvalidArgument when one of them is no name.
  Status add_alias(std::string_view name, std::string_view alias);

  // An event with any number of tensors, which capture() adds. Tensors of an unwanted event cost nothing.
  Event begin_event(const EventInfo& info);
  void capture(const Event& event, const TensorView& tensor, const Place& place = {});
  Status try_capture(const Event& event, const TensorView& tensor, const Place& place = {});

  // The call is over: its texts and what it used, at most once per event. The duration is taken here. Never fails the
  // program: what cannot be recorded is counted, as an event.
  void end_event(const Event& event, const CallInfo& call);

  // While a CUDA graph is captured on a stream: its number, for EventInfo::graph. Each replay of it is a pass of its
  // own, with the keys of the capture. kUnsupported when nothing is captured there.
  Result<uint64_t> captured_graph(int device, void* stream);
  // The capture on this stream is about to end: the last node is added. Nothing when nothing was recorded in it.
  Status end_capture(void* stream);

  // A source saw a tensor that it cannot hand over (sparse, fake, …): counted as DropCounts::unsupported in the pass,
  // the current one by default. Returns the error that try_capture() would have given.
  Status count_unsupported(std::string_view name, std::string_view reason, std::optional<uint32_t> pass = {});
  // What the source knows of its coverage (modules never called, …): an object that close() writes as member "source"
  // of coverage.json. The last one counts; kInvalidArgument when it is not an object.
  Status set_source_json(std::string json);

  // Returns when everything captured so far is in the file.
  Status flush();
  // Ends every open pass, writes coverage.json, stops the threads. The first error of the background, if any.
  Status close(Ending open_passes = Ending::kComplete);

  Report report() const;
  const std::filesystem::path& rank_directory() const;
  uint32_t run_number() const;  // of the runs in RecorderOptions::directory

 private:
  class Impl;
  friend class RecorderOpSink;
  Recorder(std::unique_ptr<Impl> impl, std::unique_ptr<GraphPasses> graphs);
  void raise_if_strict(const Status& status) const;
  std::unique_ptr<Impl> impl_;
  std::unique_ptr<GraphPasses> graphs_;
};

// A pass as a scope: aborted when it is left by an exception.
class PassScope {
 public:
  explicit PassScope(Recorder& recorder)
      : recorder_(recorder), number_(recorder.begin_pass()), exceptions_(std::uncaught_exceptions()) {}
  ~PassScope() { recorder_.end_pass(std::uncaught_exceptions() > exceptions_ ? Ending::kAborted : Ending::kComplete); }
  PassScope(const PassScope&) = delete;
  PassScope& operator=(const PassScope&) = delete;
  uint32_t number() const { return number_; }

 private:
  Recorder& recorder_;
  uint32_t number_;
  int exceptions_;
};

}  // namespace ttap
