#include "ttap/recorder.h"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <new>
#include <stdexcept>
#include <system_error>
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
  // A fork keeps the thread's variables and changes its number.
  static thread_local uint64_t number = 0;
  static thread_local unsigned forks = 0;
  if (number == 0 || forks != fork_count().load(std::memory_order_relaxed)) {
    number = static_cast<uint64_t>(::syscall(SYS_gettid));
    forks = fork_count().load(std::memory_order_relaxed);
  }
  return number;
}

// Signals are the program's: while this lives, threads are made that take none.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &saved_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &saved_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t saved_;
};

}  // namespace

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
  std::unique_ptr<Impl> impl(new Impl(options, std::move(start), std::move(filter), std::move(ring), std::move(sink)));
  TTAP_TRY(impl->start_threads());
  return impl;
}

Recorder::Impl::Impl(const RecorderOptions& options, RankStart start, Filter filter, std::unique_ptr<StagingRing> ring,
                     PassSink::Options sink)
    : rank_directory(start.directory),
      strict(options.strict),
      when_full_(options.when_full),
      names_(std::move(filter)),
      ring_(std::move(ring)),
      sink_(std::move(sink)),
      next_pass_(start.first_pass),
      directory_lock_(std::move(start.lock)) {
  close_in_forked_child(directory_lock_.get());
}

Recorder::Impl::~Impl() {
  (void)close();
  keep_in_forked_child(directory_lock_.get());
}

Status Recorder::Impl::start_threads() {
  const SignalsBlocked blocked;
  try {
    fingerprint_thread_ = std::thread([this] { run_fingerprint_station(*ring_); });
    writer_thread_ =
        std::thread([this] { run_writer_station(*ring_, sink_, [this](uint64_t ticket) { flush_is_done(ticket); }); });
  } catch (const std::system_error& error) {
    // The destructor then finds no writer, and nothing to end.
    send(StagedStop{}, [this] { closed_ = true; });
    if (fingerprint_thread_.joinable()) fingerprint_thread_.join();
    return Error{ErrorCode::kIo, fmt::format("cannot start the recorder's threads: {}", error.what())};
  }
  return {};
}

// ---- passes ----

template <class T>
void Recorder::Impl::send(const T& control, FunctionRef<void()> under_lock) {
  // Control records always wait: the order of passes does not depend on the policy for tensors.
  auto* record = ring_->reserve(sizeof(T), StagingRing::Wait::kForRoom, [&] {
    if (closed_) return false;  // nobody reads what comes after the stop record
    under_lock();
    return true;
  });
  if (record == nullptr) return;
  new (record->body()) T(control);
  ring_->publish(record, true);
}

void Recorder::Impl::send_end_of_pass(Ending ending) {
  StagedEndPass end{.ending = ending, .drops = {}};
  send(end, [&] {
    end.drops.staging_full = staging_full_.exchange(0);
    end.drops.unsupported = unsupported_.exchange(0);
    end.drops.events = events_dropped_.exchange(0);
    pass_open_ = false;
  });
}

uint32_t Recorder::Impl::begin_pass_locked() {
  const uint32_t number = next_pass_++;
  send(StagedBeginPass{.number = number, .unix_ns = unix_ns()}, [&] {
    pass_number_ = number;
    pass_start_ns_ = steady_ns();
    next_event_ = 0;
    pass_open_ = true;
  });
  return number;
}

uint32_t Recorder::Impl::begin_pass() {
  const std::lock_guard lock(pass_mutex_);
  if (pass_open_) send_end_of_pass(Ending::kComplete);
  return begin_pass_locked();
}

void Recorder::Impl::end_pass(Ending ending) {
  const std::lock_guard lock(pass_mutex_);
  if (pass_open_) send_end_of_pass(ending);
}

// Never while a Stream is held: who holds pass_mutex_ may be waiting for the stream to end.
void Recorder::Impl::ensure_pass() {
  const std::lock_guard lock(pass_mutex_);
  if (!pass_open_) begin_pass_locked();
}

StagingRing::Record* Recorder::Impl::try_reserve_in_pass(uint64_t bytes, StagingRing::Wait wait,
                                                         FunctionRef<void()> number, bool& no_pass) {
  no_pass = false;
  return ring_->reserve(bytes, wait, [&] {
    if (closed_) return false;
    no_pass = !pass_open_;
    if (!no_pass) number();
    return !no_pass;
  });
}

StagingRing::Record* Recorder::Impl::reserve_in_pass(uint64_t bytes, StagingRing::Wait wait,
                                                     FunctionRef<void()> number) {
  while (true) {
    bool no_pass = false;
    auto* record = try_reserve_in_pass(bytes, wait, number, no_pass);
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

Status Recorder::Impl::unsupported(Error error) {
  unsupported_.fetch_add(1);
  return error;
}

Status Recorder::Impl::stage(NameEntry& entry, const Event* event, const TensorView& tensor, const Place& place) {
  if (Status sound = check(tensor); !sound.ok())
    return unsupported({.code = sound.error().code,
                        .message = fmt::format("'{}' cannot be recorded: {}", entry.name, sound.error().message)});
  if (!entry.valid || !is_valid_role(place.role) || !is_valid_path(place.path))
    return unsupported({.code = ErrorCode::kInvalidArgument,
                        .message = fmt::format("name '{}', role '{}' and path '{}' do not make a key", entry.name,
                                               place.role, place.path),
                        .hint = "a name is not empty and has no NUL, a role is letters, digits and '_', a path "
                                "comes from append_path()"});
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
    staging_full_.fetch_add(1);
    // The call happened: those after it keep their numbers.
    if (event == nullptr) (void)entry.next_call(pass_number_);
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
                                       const Place& place, FunctionRef<void(StagedTensor&)> number) {
  StagedTensor staged = first;
  const size_t dims = tensor.shape.size_bytes();
  const std::initializer_list<size_t> parts = {dims, dims, place.role.size(), place.path.size(), place.device.size()};
  const uint64_t overhead = body_bytes(sizeof(StagedTensor), parts, 1);
  const uint64_t piece_limit = ring_->largest_body() / 2 / kPieceAlignment * kPieceAlignment;
  if (overhead + piece_limit > ring_->largest_body())
    return unsupported(
        {ErrorCode::kTooLarge, fmt::format("'{}': its name and path do not fit the staging memory", first.name->name)});
  const uint64_t total = source.elements() * source.element_size();
  uint64_t done = 0;
  while (done == 0) {
    bool no_pass = false;
    {
      const StagingRing::Stream stream(*ring_);
      while (done < total) {
        const uint64_t size = std::min(piece_limit, total - done);
        const bool is_first = done == 0;
        const uint64_t bytes = is_first ? overhead + size : body_bytes(sizeof(StagedPiece), {}, size);
        const auto number_first = [&] {
          if (is_first) number(staged);
        };
        // No pass can end while the stream is held, so only the first piece can find none open.
        auto* record = try_reserve_in_pass(bytes, StagingRing::Wait::kForRoom, number_first, no_pass);
        if (record == nullptr) break;
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
    }
    if (done == 0 && !no_pass) break;  // closed
    if (no_pass) ensure_pass();
  }
  return {};
}

Event Recorder::Impl::begin_event(const EventInfo& info) {
  if (!alive()) return {};
  NameEntry& entry = names_.find(info.name);
  if (!entry.level) return {};
  if (!entry.valid) {
    events_dropped_.fetch_add(1);
    return {};
  }
  StagedEvent staged{.name = &entry,
                     .number = 0,
                     .call = 0,
                     .parent = kNoEvent,
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
    staged.parent = info.parent.pass == pass_number_ ? info.parent.number : kNoEvent;
    staged.time_ns = steady_ns() - pass_start_ns_;
  });
  if (record == nullptr) {
    if (!alive()) return {};
    // Its tensors may still fit; they and later calls keep their numbers.
    events_dropped_.fetch_add(1);
    return {.call = entry.next_call(pass_number_), .pass = pass_number_, .name = &entry};
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
  // Numbered under the ring's lock, so that tickets arrive in order; stays 0 when the recorder was closed meanwhile.
  send(flush, [&] { flush.ticket = ++flush_sent_; });
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
  if (fork_count().load() != forks_at_start_) return {};
  const std::lock_guard lock(join_mutex_);
  if (!writer_thread_.joinable()) return close_status_;
  end_pass(Ending::kComplete);
  send(StagedStop{}, [this] { closed_ = true; });
  fingerprint_thread_.join();
  writer_thread_.join();
  ring_->shut();
  sink_.close();
  close_status_ = background_error();
  const Status covered = write_coverage(rank_directory, report());
  if (close_status_.ok()) close_status_ = covered;
  return close_status_;
}

Status Recorder::Impl::background_error() const {
  const std::optional<Error> first = sink_.totals().first_error;
  return first ? Status(*first) : Status{};
}

Report Recorder::Impl::report() const {
  if (fork_count().load() != forks_at_start_) return {};
  Report report = sink_.totals().report;
  report.drops.staging_full += staging_full_;
  report.drops.unsupported += unsupported_;
  report.drops.events += events_dropped_;
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
