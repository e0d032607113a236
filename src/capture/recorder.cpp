#include "ttap/recorder.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <new>
#include <stdexcept>
#include <thread>

#include "capture/coverage.h"
#include "capture/name_table.h"
#include "capture/pass_sink.h"
#include "capture/staged.h"
#include "capture/staged_body.h"
#include "capture/staging_ring.h"
#include "capture/stations.h"
#include "core/logical_copy.h"

namespace ttap {
namespace {

constexpr uint64_t kMinStaging = 64 << 10;
constexpr uint64_t kUrgentBytes = 256 << 10;  // worth waking the fingerprint thread at once
constexpr uint64_t kPieceAlignment = 4096;    // what the fingerprint of a tensor in pieces asks for

// Counts forks on the child's side: the threads of a recorder do not exist there.
std::atomic<unsigned>& fork_count() {
  static std::atomic<unsigned> count{0};
  static const int registered = pthread_atfork(nullptr, nullptr, [] { count.fetch_add(1); });
  (void)registered;
  return count;
}

uint64_t steady_ns() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}
uint64_t unix_ns() {
  return static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}
uint64_t thread_number() {
  static thread_local const auto number = static_cast<uint64_t>(::syscall(SYS_gettid));
  return number;
}

}  // namespace

class Recorder::Impl {
 public:
  static Result<std::unique_ptr<Impl>> create(const RecorderOptions& options);
  ~Impl() { (void)close(); }

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
  Impl(const RecorderOptions& options, const RankStart& start, Filter filter, std::unique_ptr<StagingRing> ring,
       PassSink::Options sink);

  template <class T>
  void send(const T& control, const std::function<bool()>& admit);
  void ensure_pass();
  // Reserves in the open pass, beginning one when none is; `number` is called under the ring's lock.
  StagingRing::Record* reserve_in_pass(uint64_t bytes, StagingRing::Wait wait, const std::function<void()>& number);
  Status stage(NameEntry& entry, const Event* event, const TensorView& tensor, const Place& place);
  Status stage_in_pieces(const StagedTensor& staged, const LogicalCopy& source, const TensorView& tensor,
                         const Place& place, const std::function<void(StagedTensor&)>& number);
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
  std::mutex pass_mutex_;  // one begin or end at a time

  std::mutex flush_mutex_;
  std::condition_variable flushed_;
  uint64_t flush_sent_ = 0;
  uint64_t flush_done_ = 0;

  std::mutex join_mutex_;
  std::atomic<bool> closed_{false};  // set under the ring's lock: nothing is reserved behind the stop record
  std::thread fingerprint_thread_;
  std::thread writer_thread_;
};

Result<std::unique_ptr<Recorder::Impl>> Recorder::Impl::create(const RecorderOptions& options) {
  if (options.directory.empty())
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = "no directory to record into",
                 .hint = "set RecorderOptions::directory or TTAP_DIR"};
  if (options.staging_bytes < kMinStaging)
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = fmt::format("{} bytes of staging memory; at least {} are needed", options.staging_bytes,
                                        kMinStaging)};
  TTAP_ASSIGN(Filter filter, Filter::create(options));
  TTAP_ASSIGN(auto start, make_rank_directory(options));
  TTAP_ASSIGN(auto ring, StagingRing::create(options.staging_bytes));
  PassSink::Options sink;
  sink.rank_directory = start.directory;
  sink.segment = {.deduplicate = options.deduplicate, .sync = options.sync};
  sink.quota_bytes = options.quota_bytes;
  sink.batch_bytes = std::min<uint64_t>(options.staging_bytes / 4, 8 << 20);
  sink.begin_json = start.metadata_json;
  return std::unique_ptr<Impl>(new Impl(options, start, std::move(filter), std::move(ring), std::move(sink)));
}

Recorder::Impl::Impl(const RecorderOptions& options, const RankStart& start, Filter filter,
                     std::unique_ptr<StagingRing> ring, PassSink::Options sink)
    : rank_directory(start.directory),
      strict(options.strict),
      when_full_(options.when_full),
      names_(std::move(filter)),
      ring_(std::move(ring)),
      sink_(std::move(sink)),
      next_pass_(start.first_pass),
      fingerprint_thread_([this] { run_fingerprint_station(*ring_); }),
      writer_thread_(
          [this] { run_writer_station(*ring_, sink_, [this](uint64_t ticket) { flush_is_done(ticket); }); }) {}

// ---- passes ----

template <class T>
void Recorder::Impl::send(const T& control, const std::function<bool()>& admit) {
  // Control records always wait: the order of passes does not depend on the policy for tensors.
  auto* record = ring_->reserve(sizeof(T), StagingRing::Wait::kForRoom, admit);
  if (record == nullptr) return;
  new (record->body()) T(control);
  ring_->publish(record, true);
}

uint32_t Recorder::Impl::begin_pass() {
  const std::lock_guard lock(pass_mutex_);
  if (pass_open_) send(StagedEndPass{.ending = Ending::kComplete}, [this] { return pass_open_ = false, true; });
  const uint32_t number = next_pass_++;
  send(StagedBeginPass{.number = number, .unix_ns = unix_ns()}, [&] {
    pass_number_ = number;
    pass_start_ns_ = steady_ns();
    next_event_ = 0;
    pass_open_ = true;
    return true;
  });
  return number;
}

void Recorder::Impl::end_pass(Ending ending) {
  const std::lock_guard lock(pass_mutex_);
  if (!pass_open_) return;
  send(StagedEndPass{.ending = ending}, [this] { return pass_open_ = false, true; });
}

void Recorder::Impl::ensure_pass() {
  if (!pass_open_) begin_pass();
}

StagingRing::Record* Recorder::Impl::reserve_in_pass(uint64_t bytes, StagingRing::Wait wait,
                                                     const std::function<void()>& number) {
  while (true) {
    bool no_pass = false;
    auto* record = ring_->reserve(bytes, wait, [&] {
      if (closed_) return false;
      no_pass = !pass_open_;
      if (!no_pass) number();
      return !no_pass;
    });
    if (!no_pass) return record;
    ensure_pass();
  }
}

// ---- capture ----

void Recorder::Impl::fill_texts(StagedTensor& staged, BodyWriter& body, const TensorView& tensor, const Place& place) {
  staged.shape = body.put(tensor.shape);
  staged.strides = is_contiguous(tensor) ? std::span<const int64_t>{} : body.put(tensor.strides);
  staged.role = body.put(place.role);
  staged.path = body.put(place.path);
  staged.device = body.put(place.device);
}

Status Recorder::Impl::capture(std::string_view name, const TensorView& tensor, const Place& place) {
  if (!alive()) return {};
  NameEntry& entry = names_.find(name);
  return entry.level ? stage(entry, nullptr, tensor, place) : Status{};
}

Status Recorder::Impl::capture(const Event& event, const TensorView& tensor, const Place& place) {
  if (!alive() || !event.wanted()) return {};
  return stage(*static_cast<NameEntry*>(const_cast<void*>(event.name)), &event, tensor, place);
}

Status Recorder::Impl::stage(NameEntry& entry, const Event* event, const TensorView& tensor, const Place& place) {
  if (Status sound = check(tensor); !sound.ok()) {
    sink_.count_unsupported();
    return Error{.code = sound.error().code,
                 .message = fmt::format("'{}' cannot be recorded: {}", entry.name, sound.error().message)};
  }
  const LogicalCopy source(tensor);
  StagedTensor staged{.level = *entry.level,
                      .dtype = tensor.dtype,
                      .own_event = event == nullptr,
                      .name = &entry,
                      .call = 0,
                      .event = kNoEvent,
                      .thread = thread_number(),
                      .time_ns = 0,
                      .byte_count = byte_count(tensor),
                      .payload = {{}, true, {}},
                      .shape = {},
                      .strides = {},
                      .role = {},
                      .path = {},
                      .device = {}};
  const auto number = [&](StagedTensor& target) {
    target.time_ns = steady_ns() - pass_start_ns_;
    if (event == nullptr) {
      target.call = entry.next_call(pass_number_);
      target.event = next_event_++;
    } else {
      target.call = event->call;
      // An event of an earlier pass is not in this file.
      target.event = event->pass == pass_number_ ? event->number : kNoEvent;
    }
  };
  const uint64_t payload = staged.level == Level::kMeta ? 0 : staged.byte_count;
  const size_t dims = tensor.shape.size_bytes();
  const uint64_t bytes = body_bytes(sizeof(StagedTensor),
                                    {dims, dims, place.role.size(), place.path.size(), place.device.size()}, payload);
  if (bytes > ring_->largest_body() && when_full_ == WhenFull::kBlock)
    return stage_in_pieces(staged, source, tensor, place, number);

  auto* record = reserve_in_pass(bytes, wait_policy(), [&] { number(staged); });
  if (record == nullptr) {
    if (!alive()) return {};
    sink_.count_staging_full();
    return Error{.code = ErrorCode::kNoSpace,
                 .message = fmt::format("'{}' ({} bytes) was dropped: the staging memory is full", entry.name, payload),
                 .hint = "raise TTAP_STAGING_BYTES, or let capture wait (TTAP_WHEN_FULL=block)"};
  }
  BodyWriter body(record, sizeof(StagedTensor));
  fill_texts(staged, body, tensor, place);
  if (payload > 0) {
    std::byte* target = body.align_to(StagingRing::kAlignment);
    source.copy(0, source.elements(), target);
    staged.payload.bytes = {target, payload};
  }
  new (record->body()) StagedTensor(staged);
  ring_->publish(record, payload >= kUrgentBytes);
  return {};
}

Status Recorder::Impl::stage_in_pieces(const StagedTensor& first, const LogicalCopy& source, const TensorView& tensor,
                                       const Place& place, const std::function<void(StagedTensor&)>& number) {
  StagedTensor staged = first;
  const size_t dims = tensor.shape.size_bytes();
  const std::initializer_list<size_t> parts = {dims, dims, place.role.size(), place.path.size(), place.device.size()};
  const uint64_t overhead = body_bytes(sizeof(StagedTensor), parts, 1);
  const uint64_t piece_limit = ring_->largest_body() / 2 / kPieceAlignment * kPieceAlignment;
  if (overhead + piece_limit > ring_->largest_body()) {
    sink_.count_unsupported();
    return Error{ErrorCode::kTooLarge,
                 fmt::format("'{}': its name and path do not fit the staging memory", first.name->name)};
  }
  ring_->lock_stream();
  const uint64_t total = source.elements() * source.element_size();
  for (uint64_t done = 0; done < total;) {
    const uint64_t size = std::min(piece_limit, total - done);
    const bool is_first = done == 0;
    const uint64_t bytes = is_first ? overhead + size : body_bytes(sizeof(StagedPiece), {}, size);
    auto* record = reserve_in_pass(bytes, StagingRing::Wait::kForRoom, [&] {
      if (is_first) number(staged);
    });
    if (record == nullptr) break;  // closed meanwhile
    BodyWriter body(record, is_first ? sizeof(StagedTensor) : sizeof(StagedPiece));
    if (is_first) fill_texts(staged, body, tensor, place);
    std::byte* target = body.align_to(StagingRing::kAlignment);
    source.copy(done / source.element_size(), size / source.element_size(), target);
    done += size;
    const StagedPayload payload{{target, size}, done == total, {}};
    if (is_first) {
      staged.payload = payload;
      new (record->body()) StagedTensor(staged);
    } else {
      new (record->body()) StagedPiece{.payload = payload};
    }
    ring_->publish(record, true);
  }
  ring_->unlock_stream();
  return {};
}

Event Recorder::Impl::begin_event(const EventInfo& info) {
  if (!alive()) return {};
  NameEntry& entry = names_.find(info.name);
  if (!entry.level) return {};
  StagedEvent staged{.name = &entry,
                     .number = 0,
                     .call = 0,
                     .parent = info.parent,
                     .thread = thread_number(),
                     .time_ns = 0,
                     .kind = {},
                     .stack = {}};
  Event event{.name = &entry};
  const uint64_t bytes = body_bytes(sizeof(StagedEvent), {info.kind.size(), info.stack.size()});
  auto* record = reserve_in_pass(bytes, wait_policy(), [&] {
    event.number = staged.number = next_event_++;
    event.call = staged.call = entry.next_call(pass_number_);
    event.pass = pass_number_;
    staged.time_ns = steady_ns() - pass_start_ns_;
  });
  if (record == nullptr) {
    if (alive()) sink_.count_staging_full();
    return {.call = 1, .name = &entry};
  }
  BodyWriter body(record, sizeof(StagedEvent));
  staged.kind = body.put(info.kind);
  staged.stack = body.put(info.stack);
  new (record->body()) StagedEvent(staged);
  ring_->publish(record, false);
  return event;
}

// ---- the end ----

Status Recorder::Impl::flush() {
  if (!alive()) return {};
  StagedFlush flush{.ticket = 0};
  // Numbered under the ring's lock, so that tickets arrive in order.
  send(flush, [&] { return flush.ticket = ++flush_sent_, true; });
  std::unique_lock lock(flush_mutex_);
  flushed_.wait(lock, [&] { return flush_done_ >= flush.ticket; });
  return background_error();
}

void Recorder::Impl::flush_is_done(uint64_t ticket) {
  const std::lock_guard lock(flush_mutex_);
  flush_done_ = ticket;
  flushed_.notify_all();
}

Status Recorder::Impl::close() {
  // In a forked child the threads stayed with the parent: there is nothing to end.
  if (fork_count().load() != forks_at_start_ || closed_.load()) return {};
  end_pass(Ending::kComplete);
  send(StagedStop{}, [this] { return !closed_.exchange(true); });
  const std::lock_guard lock(join_mutex_);
  if (!writer_thread_.joinable()) return {};
  fingerprint_thread_.join();
  writer_thread_.join();
  ring_->shut();
  sink_.close();
  TTAP_TRY(write_coverage(rank_directory, report()));
  return background_error();
}

Status Recorder::Impl::background_error() const {
  const std::string first = sink_.totals().first_error;
  return first.empty() ? Status{} : Error{ErrorCode::kIo, first};
}

Report Recorder::Impl::report() const {
  Report report = sink_.totals();
  NameTable::Counts names = names_.counts();
  report.names_seen = names.seen;
  report.names_recorded = names.recorded;
  report.patterns = std::move(names.patterns);
  report.staging_peak_bytes = ring_->peak_bytes();
  return report;
}

// ---- the public face ----

Recorder::Recorder(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Recorder::~Recorder() {
  // In a forked child the ring's locks may be held by threads that do not exist: leave them alone.
  if (fork_count().load() != impl_->forks_at_start_) (void)impl_.release();
}

Result<std::unique_ptr<Recorder>> Recorder::create(const RecorderOptions& options) {
  TTAP_ASSIGN(auto impl, Impl::create(options));
  return std::unique_ptr<Recorder>(new Recorder(std::move(impl)));
}

uint32_t Recorder::begin_pass() { return impl_->alive() ? impl_->begin_pass() : 0; }
void Recorder::end_pass(Ending ending) {
  if (impl_->alive()) impl_->end_pass(ending);
}
bool Recorder::wants(std::string_view name) { return impl_->wants(name); }

void Recorder::raise_if_strict(const Status& status) const {
  if (!status.ok() && impl_->strict) throw std::runtime_error(status.error().describe());
}

void Recorder::capture(std::string_view name, const TensorView& tensor, const Place& place) {
  raise_if_strict(try_capture(name, tensor, place));
}
Status Recorder::try_capture(std::string_view name, const TensorView& tensor, const Place& place) {
  return impl_->capture(name, tensor, place);
}

Event Recorder::begin_event(const EventInfo& info) { return impl_->begin_event(info); }
void Recorder::capture(const Event& event, const TensorView& tensor, const Place& place) {
  raise_if_strict(try_capture(event, tensor, place));
}
Status Recorder::try_capture(const Event& event, const TensorView& tensor, const Place& place) {
  return impl_->capture(event, tensor, place);
}

Status Recorder::flush() { return impl_->flush(); }
Status Recorder::close() { return impl_->close(); }
Report Recorder::report() const { return impl_->report(); }
const std::filesystem::path& Recorder::rank_directory() const { return impl_->rank_directory; }

}  // namespace ttap
