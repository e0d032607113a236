#include "ttap/recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <stdexcept>
#include <system_error>

#include "capture/recorder_impl.h"
#include "capture/writer_station.h"

namespace ttap {
namespace {

constexpr uint64_t kMinStaging = 64 << 10;

// Helpers of whoever is in capture(). Beyond a few the memory is the limit.
unsigned helper_count() { return std::clamp(std::thread::hardware_concurrency(), 1u, 4u) - 1; }

}  // namespace

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
  sink.write = options.write;
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
      directory_lock_(std::move(start.lock)),
      crew_(helper_count()) {
  close_in_forked_child(directory_lock_.get());
}

Recorder::Impl::~Impl() {
  (void)close();
  keep_in_forked_child(directory_lock_.get());
}

Status Recorder::Impl::start_threads() {
  const SignalsBlocked blocked;
  try {
    writer_thread_ =
        std::thread([this] { run_writer_station(*ring_, sink_, [this](uint64_t ticket) { flush_is_done(ticket); }); });
  } catch (const std::system_error& error) {
    // The destructor then finds no writer, and nothing to end.
    return Error{ErrorCode::kIo, fmt::format("cannot start the recorder's writer thread: {}", error.what())};
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
  writer_thread_.join();
  crew_.stop();
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
