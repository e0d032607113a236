#include "python/recording.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <memory>
#include <string>

#include "capture/process.h"
#include "core/byte_size.h"
#include "core/number_set.h"
#include "cuda/runtime/runtime.h"
#include "python/call_texts.h"
#include "python/drops.h"
#include "python/errors.h"
#include "python/gpu_rows.h"
#include "python/held_event.h"
#include "python/tensor_access.h"
#include "ttap/recorder.h"
#include "ttap/run.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace ttap::python {
namespace {

Level level_named(std::string_view name) {
  const auto level = level_from_name(name);
  if (!level)
    raise({.message = "level '" + std::string(name) + "'", .hint = "it is one of: full, sketch, fingerprint, meta"});
  return *level;
}

std::string_view write_name(WriteMode mode) {
  return mode == WriteMode::kDirect ? "direct" : mode == WriteMode::kBuffered ? "buffered" : "auto";
}
WriteMode write_named(std::string_view name) {
  for (const WriteMode mode : {WriteMode::kAuto, WriteMode::kDirect, WriteMode::kBuffered})
    if (write_name(mode) == name) return mode;
  raise({.message = "write '" + std::string(name) + "'", .hint = "it is one of: auto, direct, buffered"});
}

Ending ending_of(bool aborted) { return aborted ? Ending::kAborted : Ending::kComplete; }

// On the main thread. The interrupt stays, for Python to raise as soon as it is back in its own code.
bool is_interrupted_in_python() {
  if (Py_IsInitialized() == 0) return false;
  const PyGILState_STATE state = PyGILState_Ensure();
  const bool interrupted = PyOS_InterruptOccurred() != 0;
  if (interrupted) PyErr_SetInterrupt();
  PyGILState_Release(state);
  return interrupted;
}

nb::dict report_as_dict(const Recorder& recorder) {
  Report report;
  {
    const nb::gil_scoped_release released;
    report = recorder.report();
  }
  nb::dict result;
  result["passes"] = report.passes;
  result["tensors"] = report.tensors;
  result["tensor_bytes"] = report.tensor_bytes;
  result["deduplicated"] = report.deduplicated;
  result["file_bytes"] = report.file_bytes;
  result["lost_passes"] = report.lost_passes;
  result["first_pass_bytes"] = report.first_pass_bytes;
  result["drops"] = drops_as_dict(report.drops);
  result["first_error"] = report.first_error;
  result["staging_peak_bytes"] = report.staging_peak_bytes;
  nb::dict graphs;
  graphs["graphs"] = report.graphs.graphs;
  graphs["replays"] = report.graphs.replays;
  graphs["lost"] = report.graphs.lost;
  graphs["not_copied"] = report.graphs.not_copied;
  graphs["failed"] = report.graphs.failed;
  result["cuda_graphs"] = graphs;
  return result;
}

// What went wrong, for the caller to count; nothing when all is well. Waiting for the disk, if it comes to that,
// happens without the GIL.
std::optional<std::string> captured(Recorder& recorder, const Event& event, const TensorView& view,
                                    const Place& place) {
  Status status;
  {
    const nb::gil_scoped_release released;
    status = recorder.try_capture(event, view, place);
  }
  if (status.ok()) return std::nullopt;
  return status.error().describe();
}

void init_options(nb::module_& m) {
  nb::class_<RecorderOptions>(m, "RecorderOptions", "Options of a recorder; the defaults are C++'s.")
      .def(nb::init<>())
      .def_prop_rw(
          "directory", [](const RecorderOptions& o) { return o.directory.string(); },
          [](RecorderOptions& o, const std::string& text) { o.directory = text; })
      .def_rw("append", &RecorderOptions::append)
      .def_rw("run", &RecorderOptions::run)
      .def_rw("rank", &RecorderOptions::rank)
      .def_rw("rank_count", &RecorderOptions::rank_count)
      .def_rw("world_size", &RecorderOptions::world_size)
      .def_rw("filter", &RecorderOptions::filter)
      .def_prop_rw(
          "level", [](const RecorderOptions& o) { return to_string(o.level); },
          [](RecorderOptions& o, std::string_view name) { o.level = level_named(name); })
      .def_prop_ro("level_rules",
                   [](const RecorderOptions& o) {
                     std::vector<std::pair<std::string, std::string>> rules;
                     for (const LevelRule& rule : o.level_rules)
                       rules.emplace_back(rule.pattern, std::string(to_string(rule.level)));
                     return rules;
                   })
      .def_rw("staging_bytes", &RecorderOptions::staging_bytes)
      .def_rw("device_staging_bytes", &RecorderOptions::device_staging_bytes)
      .def_rw("quota_bytes", &RecorderOptions::quota_bytes)
      .def_prop_rw(
          "drop_when_full", [](const RecorderOptions& o) { return o.when_full == WhenFull::kDrop; },
          [](RecorderOptions& o, bool drop) { o.when_full = drop ? WhenFull::kDrop : WhenFull::kBlock; })
      .def_prop_rw(
          "write", [](const RecorderOptions& o) { return write_name(o.write); },
          [](RecorderOptions& o, std::string_view name) { o.write = write_named(name); })
      .def_rw("deduplicate", &RecorderOptions::deduplicate)
      .def_rw("sync", &RecorderOptions::sync)
      .def_rw("strict", &RecorderOptions::strict)
      .def_prop_rw(
          "format", [](const RecorderOptions& o) { return to_string(o.format); },
          [](RecorderOptions& o, std::string_view name) {
            const auto format = format_from_name(name);
            if (!format)
              raise({.message = "format '" + std::string(name) + "'",
                     .hint = "it is one of: ttap, pt, safetensors, npy"});
            o.format = *format;
          })
      .def_rw("metadata_json", &RecorderOptions::metadata_json)
      .def(
          "overlay_environment",
          [](const RecorderOptions& o) { return value_or_raise(RecorderOptions::from_environment(o)); },
          "These options, with TTAP_* variables where they have their defaults; see from_environment() in recorder.h.");
  nb::class_<NumberSet>(m, "NumberSet", "Numbers as people write them: `0,3-5,10-`.")
      .def(
          "__init__",
          [](NumberSet* self, std::string_view text) {
            new (self) NumberSet(value_or_raise(NumberSet::parse(text, NumberSet::LastRange::kMayBeOpen)));
          },
          "text"_a)
      .def("__contains__", &NumberSet::contains, "number"_a)
      .def("__str__", &NumberSet::text);
  m.def("parse_byte_size", &parse_byte_size, "text"_a, "Bytes, from text like `256M`; None when it is no size.");
}

}  // namespace

void init_recording(nb::module_& m) {
  set_interrupted(&is_interrupted_in_python);
  m.def(
      "with_signals_blocked",
      [](const nb::callable& function) {
        const SignalsBlocked blocked;
        return function();
      },
      "function"_a, "Calls it; threads that it starts take no signals.");
  init_options(m);
  init_call_texts(m);
  nb::class_<HeldEvent>(m, "Event", "An event of an open pass, to hang tensors on.")
      .def_prop_ro("number", [](const HeldEvent& held) { return held.event.number; })
      .def_prop_ro("call", [](const HeldEvent& held) { return held.event.call; })
      .def_prop_ro("pass_number", [](const HeldEvent& held) { return held.event.pass; })
      .def_prop_ro(
          "level", [](const HeldEvent& held) { return static_cast<int>(held.event.level); },
          "How much of its tensors is kept.");

  nb::class_<Recorder>(m, "Recorder", "Records tensors into a run directory; see include/ttap/recorder.h.")
      .def_static(
          "create", [](const RecorderOptions& options) { return value_or_raise(Recorder::create(options)); },
          "options"_a)
      .def("open_pass", &Recorder::open_pass, nb::call_guard<nb::gil_scoped_release>())
      .def(
          "close_pass",
          [](Recorder& recorder, uint32_t number, bool aborted) { recorder.close_pass(number, ending_of(aborted)); },
          "number"_a, "aborted"_a = false, nb::call_guard<nb::gil_scoped_release>())
      .def("skip_pass", &Recorder::skip_pass)
      .def(
          "begin_event",
          [](const nb::handle_t<Recorder>& self, std::string_view name, std::string_view kind, uint32_t pass, int level,
             const HeldEvent* parent, bool again, uint64_t graph, std::string_view stack) {
            const EventInfo info{.name = name,
                                 .kind = kind,
                                 .parent = parent != nullptr ? parent->event : Event{},
                                 .stack = stack,
                                 .pass = pass,
                                 .level = static_cast<Level>(level),
                                 .again = again,
                                 .graph = graph};
            HeldEvent held{{}, nb::borrow(self)};
            const nb::gil_scoped_release released;
            held.event = nb::inst_ptr<Recorder>(self)->begin_event(info);
            return held;
          },
          "name"_a, "kind"_a, "pass_number"_a, "level"_a, "parent"_a.none() = nb::none(), "again"_a = false,
          "graph"_a = 0, "stack"_a = "")
      .def(
          "captured_graph",
          [](Recorder& recorder, int device, uintptr_t stream) -> uint64_t {
            const nb::gil_scoped_release released;
            const auto number = recorder.captured_graph(device, reinterpret_cast<void*>(stream));
            return number.ok() ? *number : 0;
          },
          "device"_a, "stream"_a, "For begin_event(): the graph that is captured there, or 0.")
      .def(
          "end_capture",
          [](Recorder& recorder, uintptr_t stream) -> std::optional<std::string> {
            Status status;
            {
              const nb::gil_scoped_release released;
              status = recorder.end_capture(reinterpret_cast<void*>(stream));
            }
            if (status.ok()) return std::nullopt;
            return status.error().describe();
          },
          "stream"_a, "The capture there is about to end. Returns None, or what went wrong.")
      .def(
          "capture",
          [](Recorder& recorder, const HeldEvent& held, nb::handle tensor, std::string_view role, std::string_view path,
             std::string_view device, uint32_t value, std::string_view group, bool stable) {
            const TensorAccess access(tensor);
            return captured(
                recorder, held.event, access.view(),
                {.role = role, .path = path, .device = device, .value = value, .stable = stable, .group = group});
          },
          "event"_a, "tensor"_a, "role"_a, "path"_a, "device"_a, nb::kw_only(), "value"_a = 0, "group"_a = "",
          "stable"_a = false,
          "Copies a strided CPU tensor; with a `group`, the description of a quantized tensor with these values, only "
          "its fingerprint is taken. Returns None, or what went wrong.")
      .def(
          "capture_gpu",
          [](Recorder& recorder, const HeldEvent& held, nb::handle tensor, std::string_view role, std::string_view path,
             std::string_view device, int device_index, uintptr_t stream, nb::handle rows, uint32_t value,
             std::string_view group, bool stable) {
            const TensorAccess access(tensor);
            const GpuRows live(rows);
            OnGpu gpu{.device = device_index, .stream = reinterpret_cast<void*>(stream)};
            live.limit(gpu);
            std::array<int64_t, kMaxDims> shape;
            const TensorView view = live.limit(access.view(), shape);
            return captured(recorder, held.event, view,
                            {.role = role,
                             .path = path,
                             .device = device,
                             .value = value,
                             .gpu = gpu,
                             .stable = stable,
                             .group = group});
          },
          "event"_a, "tensor"_a, "role"_a, "path"_a, "device"_a, "device_index"_a, "stream"_a, nb::kw_only(),
          "rows"_a.none() = nb::none(), "value"_a = 0, "group"_a = "", "stable"_a = false,
          "Snapshots a strided CUDA tensor on the stream that made it, and does not wait. `rows`, an int or a CUDA "
          "tensor of one integer, limits its first axis. Returns None, or what went wrong.")
      .def(
          "capture_meta",
          [](Recorder& recorder, const HeldEvent& held, nb::handle tensor, std::string_view role, std::string_view path,
             std::string_view device, uint32_t value, std::string_view group) {
            const auto access = TensorAccess::without_bytes(tensor);
            return captured(recorder, held.event, access.view(),
                            {.role = role,
                             .path = path,
                             .device = device,
                             .at_most = Level::kMeta,
                             .value = value,
                             .group = group});
          },
          "event"_a, "tensor"_a, "role"_a, "path"_a, "device"_a, nb::kw_only(), "value"_a = 0, "group"_a = "",
          "Records dtype and shape of a tensor without bytes.")
      .def(
          "add_alias",
          [](Recorder& recorder, std::string_view name, std::string_view alias) {
            raise_if_failed(recorder.add_alias(name, alias));
          },
          "name"_a, "alias"_a)
      .def(
          "count_unsupported",
          [](Recorder& recorder, std::string_view name, std::string_view reason, uint32_t pass) {
            (void)recorder.count_unsupported(name, reason, pass);
          },
          "name"_a, "reason"_a, "pass_number"_a)
      .def(
          "set_source_json",
          [](Recorder& recorder, std::string json) { raise_if_failed(recorder.set_source_json(std::move(json))); },
          "json"_a)
      .def(
          "flush",
          [](Recorder& recorder) -> std::optional<std::string> {
            Status status;
            {
              const nb::gil_scoped_release released;
              status = recorder.flush();
            }
            if (status.ok()) return std::nullopt;
            return status.error().describe();
          },
          "Returns None, or the first error of the background.")
      .def(
          "close",
          [](Recorder& recorder, bool aborted) -> std::optional<std::string> {
            Status status;
            {
              const nb::gil_scoped_release released;
              status = recorder.close(ending_of(aborted));
            }
            if (status.ok()) return std::nullopt;
            return status.error().describe();
          },
          "aborted"_a = false, "Returns None, or the first error of the background.")
      .def("report", &report_as_dict)
      .def(
          "end_event",
          [](Recorder& recorder, const HeldEvent& held, const CallTexts* texts, nb::handle numbers) {
            std::vector<Use> uses;
            const CallInfo call = texts != nullptr ? texts->with(numbers, uses) : CallInfo{};
            const nb::gil_scoped_release released;
            recorder.end_event(held.event, call);
          },
          "event"_a, "texts"_a.none() = nb::none(), "numbers"_a.none() = nb::none(),
          "The call is over: its duration is kept, and with `texts` what it was given and gave. `numbers` are of its "
          "uses, two for each: which tensor it was, and the number of the value.")
      .def(
          "end_event_with",
          [](Recorder& recorder, const HeldEvent& held, nb::handle tensor, uint32_t value, const CallTexts& texts,
             nb::handle numbers, bool stable) -> std::optional<std::string> {
            const TensorAccess access(tensor);
            std::vector<Use> uses;
            const CallInfo call = texts.with(numbers, uses);
            Status status;
            {
              const nb::gil_scoped_release released;
              status = recorder.try_capture(held.event, access.view(), {.value = value, .stable = stable});
              recorder.end_event(held.event, call);
            }
            if (status.ok()) return std::nullopt;
            return status.error().describe();
          },
          "event"_a, "tensor"_a, "value"_a, "texts"_a, "numbers"_a, "stable"_a = false,
          "capture() of a call's only result, a strided CPU tensor, and end_event(): what is done most often, in one.")
      .def_prop_ro(
          "address", [](Recorder& recorder) { return reinterpret_cast<uintptr_t>(&recorder); },
          "For the extension that observes operators; good as long as this object.")
      .def_prop_ro("rank_directory", [](const Recorder& recorder) { return recorder.rank_directory().string(); })
      .def_prop_ro("run_number", &Recorder::run_number);

  m.def("cuda_available", &cuda::available, "Whether tensors can be recorded where they are, in the memory of a GPU.");
  m.def("cuda_reason", &cuda::unavailable_reason, "Why they cannot; empty when they can.");
  m.def(
      "append_path", [](std::string_view path, std::string_view step) { return append_path(path, step); }, "path"_a,
      "step"_a, "One more step into a nested output.");
  m.def(
      "key_text",
      [](std::string_view name, uint32_t call, std::string_view role, std::string_view path) {
        return to_string(Key{std::string(name), call, std::string(role), std::string(path)});
      },
      "name"_a, "call"_a, "role"_a, "path"_a, "The key of a tensor as text.");
}

}  // namespace ttap::python
