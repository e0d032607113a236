#include "ttap/recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <stdexcept>
#include <system_error>

#include "capture/graph_passes.h"
#include "capture/recorder_impl.h"
#include "capture/writer_station.h"

namespace ttap {
namespace {

constexpr uint64_t kMinStaging = 64 << 10;

uint64_t next_number() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

// Helpers of whoever is in capture(). Beyond a few the memory is the limit.
unsigned helper_count() { return std::clamp(std::thread::hardware_concurrency(), 1u, 4u) - 1; }

const Error kGivenUp{.code = ErrorCode::kIo,
                     .message = "the disk hangs, and the program was interrupted: the recording was given up",
                     .hint = "`ttap recover` finishes what is on the disk"};

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
  if (options.device_staging_bytes < kMinStaging)
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = fmt::format("{} bytes of staging memory on a device; at least {} are needed",
                                        options.device_staging_bytes, kMinStaging)};
  TTAP_ASSIGN(Filter filter, Filter::create(options));
  TTAP_ASSIGN(auto start, make_rank_directory(options));
  TTAP_ASSIGN(auto ring, StagingRing::create(options.staging_bytes));
  PassSink::Options sink;
  sink.rank_directory = start.directory;
  sink.segment = {.deduplicate = options.deduplicate, .sync = options.sync};
  sink.format = options.format;
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
      run(start.run),
      strict(options.strict),
      id(next_number()),
      when_full_(options.when_full),
      staging_bytes_(options.staging_bytes),
      device_staging_bytes_(options.device_staging_bytes),
      names_(std::move(filter)),
      ring_(std::move(ring)),
      sink_(std::move(sink)),
      passes_(start.first_pass),
      directory_lock_(std::move(start.lock)),
      crew_(helper_count()) {
  close_in_forked_child(directory_lock_.get());
}

Recorder::Impl::~Impl() {
  (void)close(Ending::kComplete);
  if (directory_lock_.is_open()) keep_in_forked_child(directory_lock_.get());
}

Status Recorder::Impl::start_threads() {
  const SignalsBlocked blocked;
  try {
    writer_thread_ = std::thread([this] {
      run_writer_station(*ring_, sink_, [this](uint64_t ticket) { flush_is_done(ticket); });
      const std::lock_guard lock(flush_mutex_);
      writer_is_done_ = true;
      flushed_.notify_all();
    });
  } catch (const std::system_error& error) {
    // The destructor then finds no writer, and nothing to end.
    return Error{ErrorCode::kIo, fmt::format("cannot start the recorder's writer thread: {}", error.what())};
  }
  return {};
}

// The tensor has no value yet: it is tapped, and this pass has its shape.
Status Recorder::Impl::capture_in_graph(GraphPass& graph, const Event& event, const TensorView& tensor,
                                        const Place& place) {
  if (!alive() || !event.wanted()) return {};
  const Level level = level_at(place, event.level);
  uint32_t tap = place.on_gpu != nullptr ? place.on_gpu->tap : kNoTap;
  Level kept = tap == kNoTap ? Level::kMeta : level;
  Status failed;
  if (tap == kNoTap && level != Level::kMeta && place.gpu) {
    Status sound = validate(tensor);
    if (sound.ok()) {
      const auto made = graph.tap(tensor, *place.gpu, level);
      if (made.ok()) {
        tap = made->place.number;
        kept = made->level;
      } else {
        failed = made.error();
      }
    } else {
      failed = std::move(sound);
    }
    if (!failed.ok()) (void)count_unsupported(name_of(event), failed.error().message, event.pass);
  }
  graph.add_tensor(event, tensor, place, kept, tap);
  // A tensor of the host's is what it is now.
  if (!place.gpu && tap == kNoTap) return capture(event, tensor, place);
  const Place here{.role = place.role,
                   .path = place.path,
                   .device = place.device,
                   .at_most = Level::kMeta,
                   .value = place.value,
                   .group = place.group};
  Status status = capture(event, {nullptr, tensor.dtype, tensor.shape, tensor.strides}, here);
  return failed.ok() ? status : failed;
}

// ---- the end ----

Status Recorder::Impl::flush() {
  if (!alive()) return {};
  StagedFlush flush{.ticket = 0};
  // Numbered under the ring's lock, so that tickets arrive in order; stays 0 when the recorder was closed meanwhile.
  send(flush, [&] {
    if (!closed_) flush.ticket = ++flush_sent_;
    return !closed_;
  });
  std::unique_lock lock(flush_mutex_);
  if (!wait_for_writer(lock, [&] { return flush_done_ >= flush.ticket; })) return kGivenUp;
  return background_error();
}

bool Recorder::Impl::wait_for_writer(std::unique_lock<std::mutex>& lock, FunctionRef<bool()> is_done) {
  StagingRing::Watch watch;
  while (!flushed_.wait_for(lock, StagingRing::kLookInterval, is_done)) {
    lock.unlock();
    const bool given_up = ring_->is_given_up(watch);
    lock.lock();
    if (given_up) return is_done();
  }
  return true;
}

void Recorder::Impl::flush_is_done(uint64_t ticket) {
  const std::lock_guard lock(flush_mutex_);
  flush_done_ = ticket;
  flushed_.notify_all();
}

Status Recorder::Impl::close(Ending open_passes) {
  // In a forked child the threads stayed with the parent: there is nothing to end.
  if (fork_count().load() != forks_at_start_) return {};
  const std::lock_guard lock(join_mutex_);
  if (!writer_thread_.joinable()) return close_status_;
  std::vector<uint32_t> open;
  ring_->locked([&] {
    closed_ = true;
    open = passes_.numbers();
  });
  for (const uint32_t number : open) {
    StagedEndPass end{.head = {StagedKind::kEndPass, number}, .ending = open_passes};
    send(end, [&] {
      end.drops = passes_.close(number).value_or(DropCounts{});
      return true;
    });
  }
  send(StagedStop{}, [] { return true; });
  bool is_done = false;
  {
    std::unique_lock done_lock(flush_mutex_);
    is_done = wait_for_writer(done_lock, [&] { return writer_is_done_; });
  }
  if (!is_done) {
    writer_thread_.detach();
    return close_status_ = kGivenUp;
  }
  writer_thread_.join();
  crew_.stop();
  ring_->shut();
  {
    const std::lock_guard device_lock(device_mutex_);
    if (device_staging_ != nullptr) device_staging_->stop();
  }
  sink_.close();
  close_status_ = background_error();
  const Report last = report();
  const std::lock_guard source_lock(source_mutex_);
  const Status covered = write_coverage(rank_directory, last, source_json_);
  // Whoever still holds the recorder, the directory is free for the next one.
  keep_in_forked_child(directory_lock_.get());
  directory_lock_ = {};
  if (close_status_.ok()) close_status_ = covered;
  return close_status_;
}

Status Recorder::Impl::set_source_json(std::string json) {
  if (!alive()) return {};
  TTAP_TRY(check_json_object(json, "what the source says of itself"));
  const std::lock_guard lock(source_mutex_);
  source_json_ = std::move(json);
  return {};
}

Status Recorder::Impl::background_error() const {
  const std::optional<Error> first = sink_.totals().first_error;
  return first ? Status(*first) : Status{};
}

Report Recorder::Impl::report() const {
  if (fork_count().load() != forks_at_start_) return {};
  Report report = sink_.totals().report;
  ring_->locked([&] { report.drops += passes_.all_drops(); });
  NameTable::Counts names = names_.counts();
  report.names_seen = names.seen;
  report.names_recorded = names.recorded;
  report.patterns = std::move(names.patterns);
  report.staging_peak_bytes = ring_->peak_bytes();
  const std::lock_guard lock(source_mutex_);
  report.graphs = graphs_;
  return report;
}

void Recorder::Impl::set_graphs(const Report::Graphs& graphs) {
  const std::lock_guard lock(source_mutex_);
  graphs_ = graphs;
}

// ---- the public face ----

Recorder::Recorder(std::unique_ptr<Impl> impl, std::unique_ptr<GraphPasses> graphs)
    : impl_(std::move(impl)), graphs_(std::move(graphs)) {}

Recorder::~Recorder() {
  // In a forked child the ring's locks may be held by threads that do not exist: leave them alone.
  const bool is_child = fork_count().load() != impl_->forks_at_start_;
  if (!is_child) (void)close();
  if (is_child || impl_->is_given_up()) {
    (void)graphs_.release();
    (void)impl_.release();
  }
}

Result<std::unique_ptr<Recorder>> Recorder::create(const RecorderOptions& options) {
  TTAP_ASSIGN(auto impl, Impl::create(options));
  std::unique_ptr<Recorder> recorder(new Recorder(std::move(impl), nullptr));
  const cuda::GraphMemory::RingOptions ring{.bytes = options.staging_bytes,
                                            .wait_when_full = options.when_full == WhenFull::kBlock};
  const auto take = [to = recorder.get()](GraphPass& graph) { return graph.take_replay(*to); };
  recorder->graphs_ = std::make_unique<GraphPasses>(take, ring, options.device_staging_bytes);
  return recorder;
}

uint32_t Recorder::begin_pass() { return impl_->alive() ? impl_->begin_pass() : 0; }
void Recorder::end_pass(Ending ending) {
  if (impl_->alive()) impl_->end_pass(ending);
}
uint32_t Recorder::open_pass() { return impl_->alive() ? impl_->open_pass() : 0; }
void Recorder::close_pass(uint32_t number, Ending ending) {
  if (impl_->alive()) impl_->close_pass(number, ending);
}
uint32_t Recorder::skip_pass() { return impl_->alive() ? impl_->skip_pass() : 0; }
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

Status Recorder::add_alias(std::string_view name, std::string_view alias) { return impl_->add_alias(name, alias); }

Event Recorder::begin_event(const EventInfo& info) {
  Event event = impl_->begin_event(info);
  GraphPass* graph = event.wanted() ? graphs_->under_way(info.graph) : nullptr;
  if (graph != nullptr) {
    event.graph = info.graph;
    graph->add_event(info, event);
  }
  return event;
}
void Recorder::end_event(const Event& event, const CallInfo& call) {
  impl_->end_event(event, call);
  if (GraphPass* graph = graphs_->under_way(event.graph)) graph->end_event(event, call);
}
void Recorder::capture(const Event& event, const TensorView& tensor, const Place& place) {
  raise_if_strict(try_capture(event, tensor, place));
}
Status Recorder::try_capture(const Event& event, const TensorView& tensor, const Place& place) {
  // A gradient may come when the capture of its call is over.
  GraphPass* graph = graphs_->under_way(event.graph);
  return graph != nullptr ? impl_->capture_in_graph(*graph, event, tensor, place)
                          : impl_->capture(event, tensor, place);
}

// ---- graphs ----

Result<uint64_t> Recorder::captured_graph(int device, void* stream) {
  if (!impl_->alive()) return Error{.code = ErrorCode::kInvalidArgument, .message = "the recorder is closed"};
  TTAP_ASSIGN(const GraphPass* graph, graphs_->of_capture(device, static_cast<cuda::Stream>(stream)));
  return graph->number();
}

Status Recorder::end_capture(void* stream) {
  return impl_->alive() ? graphs_->end_capture(static_cast<cuda::Stream>(stream)) : Status{};
}

Status Recorder::count_unsupported(std::string_view name, std::string_view reason, std::optional<uint32_t> pass) {
  return impl_->count_unsupported(name, reason, pass);
}
Status Recorder::set_source_json(std::string json) { return impl_->set_source_json(std::move(json)); }

Status Recorder::flush() {
  if (impl_->alive()) graphs_->drain();
  return impl_->flush();
}
Status Recorder::close(Ending open_passes) {
  if (fork_count().load() != impl_->forks_at_start_) return {};
  if (impl_->alive()) graphs_->stop();
  impl_->set_graphs(graphs_->counts());
  return impl_->close(open_passes);
}
Report Recorder::report() const {
  if (impl_->alive()) impl_->set_graphs(graphs_->counts());
  return impl_->report();
}
const std::filesystem::path& Recorder::rank_directory() const { return impl_->rank_directory; }
uint32_t Recorder::run_number() const { return impl_->run; }

}  // namespace ttap
