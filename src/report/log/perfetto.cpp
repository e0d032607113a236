#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "analyze/ops/event_op.h"
#include "report/log/argument_text.h"
#include "report/log/event_text.h"
#include "report/log/log_selection.h"
#include "report/text/json_writer.h"

namespace ttap {
namespace {

// The format counts in microseconds; three digits behind the point are nanoseconds.
std::string microseconds(uint64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

// `f32[8, 8] 3f2a9c01…`, the whole hash.
std::string value_text(const TensorRecord& tensor) {
  std::string text;
  append_type(text, tensor);
  if (tensor.has_fingerprint) text += " " + to_string(tensor.fingerprint.hash);
  return text;
}

}  // namespace

class PerfettoWriter::Impl {
 public:
  Impl(Output& out, uint64_t started_unix_ns) : out_(out), json_(out), started_unix_ns_(started_unix_ns) {
    json_.begin_object().member("displayTimeUnit", "ns").key("traceEvents").begin_array();
  }

  Status add(const Pass& pass, const LogOptions& options, const LogSource& source) {
    TTAP_ASSIGN(const LogSelection selection, LogSelection::make(pass, options));
    pass_ = &pass;
    source_ = source;
    offset_ns_ = std::max(pass.info().started_unix_ns, started_unix_ns_) - started_unix_ns_;
    name_process();
    for (size_t i = selection.begin(); i < selection.end() && !out_.closed(); ++i) {
      const EventRecord event = pass.event(i);
      if (!selection.wants(i, event)) continue;
      name_thread(event.thread);
      write_slice(static_cast<uint32_t>(i), event);
      if (selection.has(event.forward)) write_arrow(event);
    }
    return {};
  }

  void finish() { json_.end().end(); }

 private:
  JsonWriter& begin(std::string_view phase, std::string_view name, uint64_t thread) {
    return json_.begin_line().member("ph", phase).member("name", name).member("pid", source_.pid).member("tid", thread);
  }
  JsonWriter& at(uint64_t time_ns) { return json_.key("ts").raw(microseconds(offset_ns_ + time_ns)); }

  void name_process() {
    if (std::ranges::find(processes_, source_.pid) != processes_.end()) return;
    processes_.push_back(source_.pid);
    begin("M", "process_name", 0).key("args").begin_line();
    json_.member("name", fmt::format("rank {} (pid {})", source_.rank, source_.pid)).end().end();
    begin("M", "process_sort_index", 0).key("args").begin_line().member("sort_index", source_.rank).end().end();
  }

  void name_thread(uint64_t thread) {
    const std::pair<int64_t, uint64_t> both{source_.pid, thread};
    if (!threads_.empty() && both == threads_[last_thread_]) return;
    const auto known = std::ranges::find(threads_, both);
    last_thread_ = static_cast<size_t>(known - threads_.begin());
    if (known != threads_.end()) return;
    threads_.push_back(both);
    begin("M", "thread_name", thread).key("args").begin_line();
    json_.member("name", fmt::format("thread {}", thread)).end().end();
  }

  // A slice; of a call whose end is not known, an instant.
  void write_slice(uint32_t index, const EventRecord& event) {
    const bool called = is_call_of_operator(event);
    const EventOp name = called ? op_of_event(*pass_, index) : EventOp{};
    begin(event.returned ? "X" : "i", called ? std::string_view(name.op) : event.name, event.thread)
        .member("cat", event.kind);
    at(event.time_ns);
    if (event.returned) {
      json_.key("dur").raw(microseconds(event.duration_ns));
    } else {
      json_.member("s", "t");
    }
    json_.key("args").begin_line();
    json_.member("event", index).member("key", to_string(Key{.name = std::string(event.name), .call = event.call}));
    if (!name.scope.empty()) json_.member("module", name.scope);
    if (name.backward) json_.member("backward", true);
    if (!event.arguments.empty()) json_.member("arguments", shortened_arguments(event.arguments));
    if (!event.results.empty()) json_.member("results", event.results);
    if (!event.notes.empty()) json_.member("notes", event.notes);
    for (size_t i = 0; i < event.use_count; ++i) {
      const UseRecord use = pass_->use(index, i);
      if (use.record < pass_->tensor_count())
        json_.member(fmt::format("{}{}", use.role, use.path), value_text(pass_->tensor(use.record)));
    }
    json_.end().end();
  }

  void write_arrow(const EventRecord& event) {
    const EventRecord forward = pass_->event(event.forward);
    if (!forward.returned || !event.returned) return;  // an arrow goes from slice to slice
    const auto end_of_arrow = [&](std::string_view phase, const EventRecord& slice) {
      begin(phase, "backward of", slice.thread).member("cat", "backward").member("id", arrows_);
      at(slice.time_ns);
      if (phase == "f") json_.member("bp", "e");
      json_.end();
    };
    end_of_arrow("s", forward);
    end_of_arrow("f", event);
    ++arrows_;
  }

  Output& out_;
  JsonWriter json_;
  const Pass* pass_ = nullptr;
  LogSource source_;
  uint64_t started_unix_ns_;
  uint64_t offset_ns_ = 0;  // of the pass
  std::vector<int64_t> processes_;
  std::vector<std::pair<int64_t, uint64_t>> threads_;  // that have a name
  size_t last_thread_ = 0;
  uint64_t arrows_ = 0;
};

PerfettoWriter::PerfettoWriter(Output& out, uint64_t started_unix_ns)
    : impl_(std::make_unique<Impl>(out, started_unix_ns)) {}
PerfettoWriter::~PerfettoWriter() = default;
Status PerfettoWriter::add(const Pass& pass, const LogOptions& options, const LogSource& source) {
  return impl_->add(pass, options, source);
}
void PerfettoWriter::finish() { impl_->finish(); }

}  // namespace ttap
