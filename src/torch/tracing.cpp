#include "torch/tracing.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "capture/ops/op_log.h"
#include "capture/ops/recorder_op_sink.h"
#include "torch/gpu/cuda_stream.h"
#include "torch/observer.h"
#include "torch/python_side.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace ttap::torch_source {
namespace {

OpView view_named(std::string_view name) {
  if (name == "dispatch") return OpView::kDispatch;
  if (name == "all") return OpView::kAll;
  if (name == "leaf") return OpView::kLeaf;
  throw nb::value_error("a view is one of dispatch, all, leaf");
}

// An observer with where it puts what it sees: memory, or a recorder that outlives it, and that may come later (null).
class OpSource {
 public:
  OpSource(const ObserverOptions& options, nb::object decide, nb::object describe, nb::object take_apart,
           nb::object hook, uint64_t limit_bytes, std::optional<Recorder*> recorder)
      : held_{std::move(decide), std::move(describe), std::move(take_apart), std::move(hook)},
        observer_(options, python_side({.decide = function(held_[0]),
                                        .describe = function(held_[1]),
                                        .take_apart = function(held_[2]),
                                        .hook = function(held_[3])})) {
    if (recorder) {
      recorder_sink_ = std::make_unique<RecorderOpSink>(*recorder, observer_.texts(), observer_.places());
      RecorderOpSink* sink = recorder_sink_.get();
      observer_.set_sink(
          sink, {.new_stack = [sink](uint32_t number, std::string text) { sink->set_stack(number, std::move(text)); }});
    } else {
      log_ = std::make_unique<OpLog>(observer_.texts(), observer_.metas(), observer_.places(),
                                     OpLogOptions{.limit_bytes = limit_bytes});
      observer_.set_sink(log_.get());
    }
  }

  // Before its sink goes.
  ~OpSource() { stop(); }
  OpSource(const OpSource&) = delete;
  OpSource& operator=(const OpSource&) = delete;

  void set_recorder(uintptr_t address) {
    if (recorder_sink_ == nullptr) throw nb::value_error("what is kept in memory goes to no recorder");
    recorder_sink_->set_recorder(*reinterpret_cast<Recorder*>(address));
  }
  void start() { observer_.start(); }
  void stop() {
    const nb::gil_scoped_release released;
    observer_.stop();
  }
  Observer& observer() { return observer_; }
  void settle() {
    const nb::gil_scoped_release released;
    if (log_ != nullptr) log_->settle();
  }

  std::string save(const std::string& directory, const std::string& metadata_json, const std::string& source_json,
                   bool append) {
    if (log_ == nullptr) throw nb::value_error("what goes to a recorder cannot be saved");
    OpLog::SaveOptions options{.metadata_json = metadata_json, .source_json = source_json, .append = append};
    options.dropped_events = observer_.counts().no_room;
    for (uint32_t number = 1; number <= observer_.stacks().size(); ++number)
      options.stacks.push_back(observer_.stacks().text(number));
    std::optional<Result<std::filesystem::path>> saved;
    {
      const nb::gil_scoped_release released;
      saved.emplace(log_->save(directory, options));
    }
    if (!saved->ok()) throw std::runtime_error(saved->error().describe());
    return saved->value().string();
  }

  nb::dict counts() {
    const Observer::Counts counts = observer_.counts();
    nb::dict result;
    result["calls"] = counts.calls;
    result["rejected"] = counts.rejected;
    result["no_room"] = counts.no_room;
    result["compilation"] = counts.compilation;
    result["failed"] = counts.failed;
    result["first_failure"] = counts.first_failure;
    result["lost"] = counts.lost;
    result["replays"] = log_ != nullptr ? log_->replays() : 0;
    result["lost_replays"] = log_ != nullptr ? log_->lost_replays() : 0;
    result["outside_passes"] = recorder_sink_ != nullptr ? recorder_sink_->outside_passes() : 0;
    result["bytes"] = log_ != nullptr ? log_->bytes() + observer_.texts().bytes() : 0;
    result["tensors"] = log_ != nullptr ? log_->tensor_count() : 0;
    return result;
  }

 private:
  static PyObject* function(const nb::object& object) { return object.is_none() ? nullptr : object.ptr(); }

  nb::object held_[4];
  Observer observer_;
  std::unique_ptr<OpLog> log_;
  std::unique_ptr<RecorderOpSink> recorder_sink_;
};

void begin_kernel(OpSource& source, std::string_view library, std::string_view name,
                  const std::vector<std::pair<std::string, nb::object>>& arguments) {
  std::vector<Observer::KernelArgument> given;
  for (const auto& [label, value] : arguments) {
    Observer::KernelArgument argument{.name = label, .tensor = tensor_of(value.ptr()), .text = {}};
    if (!argument.tensor.defined()) argument.text = nb::str(value).c_str();
    given.push_back(std::move(argument));
  }
  const nb::gil_scoped_release released;
  source.observer().begin_kernel(library, name, std::move(given));
}

struct Suppressed {};

}  // namespace

void init_tracing(nb::module_& m) {
  nb::class_<OpSource>(m, "OpSource", "Observes the operators of the process; see src/torch/observer.h.")
      .def(
          "__init__",
          [](OpSource* self, std::string_view view, int level, bool inputs, bool outputs, bool ids, bool stacks,
             bool all_threads, bool compilation, bool unseen_writes, nb::object decide, nb::object describe,
             nb::object take_apart, nb::object hook, uint64_t limit_bytes, std::optional<uintptr_t> recorder,
             int64_t padded, uintptr_t rows, bool rows_are_64_bit) {
            std::optional<Recorder*> to;
            if (recorder) to = reinterpret_cast<Recorder*>(*recorder);
            new (self) OpSource({.view = view_named(view),
                                 .level = static_cast<Level>(level),
                                 .inputs = inputs,
                                 .outputs = outputs,
                                 .ids = ids,
                                 .stacks = stacks,
                                 .all_threads = all_threads,
                                 .compilation = compilation,
                                 .unseen_writes = unseen_writes},
                                std::move(decide), std::move(describe), std::move(take_apart), std::move(hook),
                                limit_bytes, to);
            self->observer().set_rows({padded, {reinterpret_cast<const void*>(rows), rows_are_64_bit}});
          },
          nb::kw_only(), "view"_a, "level"_a, "inputs"_a, "outputs"_a, "ids"_a, "stacks"_a, "all_threads"_a,
          "compilation"_a, "unseen_writes"_a, "decide"_a.none(), "describe"_a.none(), "take_apart"_a.none(),
          "hook"_a.none(), "limit_bytes"_a, "recorder"_a.none(), "padded"_a = -1, "rows"_a = 0,
          "rows_are_64_bit"_a = true)
      .def("set_recorder", &OpSource::set_recorder, "address"_a,
           "The recorder, of a source that was made with 0 for it.")
      .def("start", &OpSource::start)
      .def("stop", &OpSource::stop)
      .def(
          "enter",
          [](OpSource& source, std::string_view name, std::string_view notes, bool makes_event) {
            const nb::gil_scoped_release released;
            source.observer().enter(name, notes, makes_event);
          },
          "name"_a, "notes"_a = "", "makes_event"_a = true, "A module is entered on this thread.")
      .def(
          "set_scope_event", [](OpSource& source, uint32_t event) { source.observer().set_scope_event(event); },
          "event"_a)
      .def(
          "leave",
          [](OpSource& source, bool raised) {
            const nb::gil_scoped_release released;
            source.observer().leave(raised);
          },
          "raised"_a = false)
      .def(
          "set_pass", [](OpSource& source, int64_t number) { source.observer().set_pass(number); }, "number"_a)
      .def(
          "set_pass_of_others", [](OpSource& source, int64_t number) { source.observer().set_pass_of_others(number); },
          "number"_a)
      .def("begin_kernel", &begin_kernel, "library"_a, "name"_a, "arguments"_a)
      .def("end_kernel",
           [](OpSource& source) {
             const nb::gil_scoped_release released;
             source.observer().end_kernel();
           })
      .def(
          "launch_waiting", [](OpSource& source) { source.observer().launch_waiting(); },
          nb::call_guard<nb::gil_scoped_release>())
      .def(
          "forget_values", [](OpSource& source) { source.observer().forget_values(); },
          nb::call_guard<nb::gil_scoped_release>())
      .def(
          "forget", [](OpSource& source, nb::handle tensor) { source.observer().forget(tensor_of(tensor.ptr())); },
          "tensor"_a, "Nothing refers to it any more, until it is seen again.")
      .def(
          "name_leaf",
          [](OpSource& source, nb::handle tensor, std::string_view name) {
            const at::Tensor leaf = tensor_of(tensor.ptr());
            const nb::gil_scoped_release released;
            source.observer().name_leaf(leaf, name);
          },
          "tensor"_a, "name"_a, "A parameter's name: calls that bring its gradient say it.")
      .def(
          "name_tensor",
          [](OpSource& source, nb::handle tensor, std::string_view name) {
            const at::Tensor named = tensor_of(tensor.ptr());
            const nb::gil_scoped_release released;
            source.observer().name_tensor(named, name);
          },
          "tensor"_a, "name"_a, "A tensor's name: the first call of each pass that uses it says it.")
      .def(
          "name_of",
          [](OpSource& source, nb::handle tensor) {
            const at::Tensor named = tensor_of(tensor.ptr());
            const nb::gil_scoped_release released;
            return source.observer().name_of(named);
          },
          "tensor"_a, "The name that a tensor was given; empty: none.")
      .def(
          "end_capture", [](OpSource& source) { source.observer().end_capture(); },
          nb::call_guard<nb::gil_scoped_release>())
      .def("settle", &OpSource::settle, "After stop(): waits for what is on its way, and takes the replays that came.")
      .def(
          "not_initialised",
          [](OpSource& source, nb::handle tensor) { source.observer().not_initialised(tensor_of(tensor.ptr())); },
          "tensor"_a)
      .def("save", &OpSource::save, "directory"_a, "metadata_json"_a, "source_json"_a, "append"_a)
      .def("counts", &OpSource::counts);
  m.def("suppress_recording", &Observer::suppress_recording, "by"_a,
        "What this thread does meanwhile is not recorded; nests.");
  // In C++, where no interrupt can come between the two halves of it.
  nb::class_<Suppressed>(m, "Suppressed", "The same for a `with` block.")
      .def(nb::init<>())
      .def("__enter__", [](Suppressed&) { Observer::suppress_recording(1); })
      .def(
          "__exit__", [](Suppressed&, nb::handle, nb::handle, nb::handle) { Observer::suppress_recording(-1); },
          "kind"_a.none(), "error"_a.none(), "trace"_a.none());
  m.def("taps_on_gpu", &GpuTaps::work, "Whether fingerprints of CUDA tensors are taken on the device.");
  m.def(
      "current_stream", [](int device) { return reinterpret_cast<uintptr_t>(CudaStreams::current(device)); },
      "device"_a, "As PyTorch says it; for tests.");
  m.def("compiling", &Observer::compiling, "by"_a, "torch.compile is at work on this thread; nests.");
}

}  // namespace ttap::torch_source
