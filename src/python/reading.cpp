#include "python/reading.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>

#include "python/drops.h"
#include "python/errors.h"
#include "python/stats_dict.h"
#include "python/tensor_access.h"
#include "python/tensor_bytes.h"
#include "python/text.h"
#include "report/log/event_notes.h"
#include "store/sources/run_layout.h"
#include "ttap/group.h"
#include "ttap/run.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace ttap::python {
namespace {

static_assert(kNoEvent == kNoNumber);

nb::tuple numbers(std::span<const int64_t> values) {
  nb::list list;
  for (const int64_t value : values) list.append(value);
  return nb::tuple(list);
}

nb::dict tensor_as_dict(const Pass& pass, size_t index) {
  if (index >= pass.tensor_count()) throw nb::index_error("no such tensor");
  const TensorRecord record = pass.tensor(index);
  nb::dict result;
  result["key"] = text(to_string(record.key()));
  result["name"] = text(record.name);
  result["call"] = record.call;
  result["role"] = text(record.role);
  result["path"] = text(record.path);
  result["event"] = number_or_none(record.event);
  result["dtype"] = dtype_name(record.dtype);
  result["true_dtype"] =
      record.true_dtype ? nb::object(nb::str(std::string(dtype_name(*record.true_dtype)).c_str())) : nb::none();
  result["shape"] = numbers(record.shape);
  result["strides"] = record.strides.empty() ? nb::none() : nb::object(numbers(record.strides));
  result["device"] = text(record.device);
  result["level"] = to_string(record.level);
  result["group"] = text(record.group);
  result["has_bytes"] = record.has_bytes;
  result["byte_count"] = record.byte_count;
  result["hash"] = record.has_fingerprint ? nb::object(text(to_string(record.fingerprint.hash))) : nb::none();
  result["stats"] = record.has_fingerprint ? nb::object(stats_as_dict(record.fingerprint.stats)) : nb::none();
  return result;
}

nb::list uses_as_tuples(const Pass& pass, size_t event, uint32_t count) {
  nb::list uses;
  for (uint32_t i = 0; i < count; ++i) {
    const UseRecord use = pass.use(event, i);
    uses.append(nb::make_tuple(text(use.role), text(use.path), number_or_none(use.tensor), number_or_none(use.record),
                               use.written));
  }
  return uses;
}

nb::dict event_as_dict(const Pass& pass, size_t index) {
  if (index >= pass.event_count()) throw nb::index_error("no such event");
  const EventRecord event = pass.event(index);
  nb::dict result;
  result["name"] = text(event.name);
  result["kind"] = text(event.kind);
  result["call"] = event.call;
  result["parent"] = number_or_none(event.parent);
  result["thread"] = event.thread;
  result["time_ns"] = event.time_ns;
  result["stack"] = text(event.stack);
  result["arguments"] = text(event.arguments);
  result["results"] = text(event.results);
  result["notes"] = text(event.notes);
  result["forward"] = number_or_none(event.forward);
  result["duration_ns"] = event.duration_ns;
  result["returned"] = has_returned(event);
  result["uses"] = uses_as_tuples(pass, index, event.use_count);
  return result;
}

nb::dict info_as_dict(const Pass& pass) {
  const PassInfo& info = pass.info();
  nb::dict result;
  result["path"] = text(info.path.string());
  result["format"] = to_string(info.format);
  result["number"] = info.number;
  result["ending"] = to_string(info.ending);
  result["being_written"] = info.being_written;
  result["file_bytes"] = info.file_bytes;
  result["problem"] = text(info.problem);
  result["started_unix_ns"] = info.started_unix_ns;
  result["drops"] = drops_as_dict(info.drops);
  result["metadata_json"] = text(info.metadata_json);
  nb::list notes;
  for (const std::string& note : info.notes) notes.append(text(note));
  result["notes"] = notes;
  return result;
}

std::optional<size_t> find_key(const Pass& pass, nb::str key) {
  const auto parsed = parse_key(bytes_of(key));
  return parsed.ok() ? pass.find(*parsed) : std::nullopt;
}

void decode_tensor_into(const Pass& pass, size_t index, nb::handle out) {
  if (index >= pass.tensor_count()) throw nb::index_error("no such tensor");
  const TensorAccess access(out);
  const TensorView target = access.view();
  const GroupParts parts = value_or_raise(group_of(pass, index));
  if (!is_contiguous(target) || !std::ranges::equal(target.shape, parts.shape))
    throw nb::value_error("`out` must be contiguous, and of the shape of the tensor");
  const Status status = [&]() -> Status {
    const nb::gil_scoped_release released;
    TTAP_ASSIGN(const QuantGroup group, read_group(pass, parts));
    return decode(group, target.dtype, const_cast<void*>(target.data));
  }();
  raise_if_failed(status);
}

// Another format of the pass, in a directory: (path, tensors, without_bytes, missing).
nb::tuple export_to(const Pass& pass, const std::string& format, nb::str directory, nb::object wanted) {
  const auto chosen = format_from_name(format);
  if (!chosen) throw nb::value_error(("there is no format " + format).c_str());
  std::function<bool(const TensorRecord&)> filter;
  if (!wanted.is_none())
    filter = [&](const TensorRecord& record) {
      const nb::gil_scoped_acquire held;
      return nb::cast<bool>(wanted(text(to_string(record.key()))));
    };
  const std::string to = bytes_of(directory);
  auto exported = [&] {
    const nb::gil_scoped_release released;
    return export_pass(pass, *chosen, to, filter);
  }();
  const Exported made = value_or_raise(std::move(exported));
  return nb::make_tuple(text(made.path.string()), made.tensors, made.without_bytes, made.missing);
}

// What a dead process left, finished: (path, tensors, cut_bytes).
nb::tuple recover(nb::str path, bool force) {
  const Recovered made = value_or_raise(recover_pass(bytes_of(path), force));
  return nb::make_tuple(text(made.path.string()), made.tensors, made.cut_bytes);
}

}  // namespace

void init_reading(nb::module_& m) {
  nb::class_<PassFile>(m, "PassFile")
      .def_prop_ro("path", [](const PassFile& file) { return text(file.path.string()); })
      .def_prop_ro("format", [](const PassFile& file) { return to_string(file.format); })
      .def_ro("number", &PassFile::number);
  nb::class_<Rank>(m, "Rank")
      .def_prop_ro("path", [](const Rank& rank) { return text(rank.path.string()); })
      .def_ro("number", &Rank::number)
      .def_ro("pid", &Rank::pid)
      .def_ro("passes", &Rank::passes);
  nb::class_<Run>(m, "Run")
      .def_static(
          "open", [](nb::str path) { return value_or_raise(Run::open(bytes_of(path))); }, "path"_a)
      .def_prop_ro("path", [](const Run& run) { return text(run.path.string()); })
      .def_ro("ranks", &Run::ranks)
      .def_ro("number", &Run::number)
      .def_ro("runs", &Run::runs);
  m.def(
      "runs_in",
      [](nb::str directory) {
        std::vector<nb::object> paths;
        for (const RunFolder& run : value_or_raise(runs_in(bytes_of(directory))))
          paths.push_back(text(run.path.string()));
        return paths;
      },
      "directory"_a, "The paths of the runs of a directory, the oldest first.");

  nb::class_<Pass>(m, "Pass", "One pass, open for reading.")
      .def_static(
          "open", [](nb::str path) { return std::make_unique<Pass>(value_or_raise(Pass::open(bytes_of(path)))); },
          "path"_a)
      .def("info", &info_as_dict)
      .def_prop_ro("tensor_count", &Pass::tensor_count)
      .def_prop_ro("event_count", &Pass::event_count)
      .def("tensor", &tensor_as_dict, "index"_a)
      .def("event", &event_as_dict, "index"_a)
      .def(
          "key", [](const Pass& pass, size_t index) { return text(to_string(pass.tensor(index).key())); }, "index"_a)
      .def(
          "has_bytes", [](const Pass& pass, size_t index) { return pass.tensor(index).has_bytes; }, "index"_a)
      .def("find", &find_key, "key"_a)
      .def("decoded", &decode_tensor_into, "index"_a, "out"_a,
           "The values of a quantized tensor into `out`, a contiguous CPU tensor whose dtype they get.")
      .def("bytes", &tensor_bytes, "index"_a, "The bytes of a tensor in C order, as a uint8 array of its own.")
      .def("export_to", &export_to, "format"_a, "directory"_a, "wanted"_a = nb::none());
  m.def("recover_pass", &recover, "path"_a, "force"_a);
  m.def(
      "exported_rank_name",
      [](const std::string& path, uint32_t rank, int64_t pid) { return exported_rank_name(path, rank, pid); }, "path"_a,
      "rank"_a, "pid"_a);
}

}  // namespace ttap::python
