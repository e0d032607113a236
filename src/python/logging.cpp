#include "python/logging.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <string>

#include "python/errors.h"
#include "report/log/log.h"
#include "report/text/output_file.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace ttap::python {
namespace {

// As `ttap log` takes them: `around` is a key, `stack` empty, "user" or "all".
struct Chosen {
  std::string filter;
  std::string module;
  std::optional<std::string> around;
  size_t neighbours;
};

LogOptions options_of(const Pass& pass, const Chosen& chosen) {
  LogOptions options{.filter = chosen.filter, .module = chosen.module, .neighbours = chosen.neighbours};
  if (!chosen.around) return options;
  const auto event = find_event(pass, *chosen.around);
  if (!event.ok()) {  // no file is missing
    PyErr_SetString(PyExc_LookupError, event.error().describe().c_str());
    throw nb::python_error();
  }
  options.around = *event;
  return options;
}

// What `write` writes; text of names that are not UTF-8 is escaped by then.
template <class Write>
std::string written(Write&& write, Terminal terminal = {}) {
  std::string text;
  const Status status = [&] {
    const nb::gil_scoped_release released;
    Output out(text, terminal);
    Status made = write(out);
    out.flush();
    return made;
  }();
  raise_if_failed(status);
  return text;
}

std::string log_text(const Pass& pass, const std::string& filter, const std::string& module,
                     const std::optional<std::string>& around, size_t neighbours, const std::string& stack, bool inputs,
                     bool strides, bool keys, bool color) {
  LogOptions options = options_of(pass, {filter, module, around, neighbours});
  if (!stack.empty()) options.stack = stack == "all" ? StackFrames::kAll : StackFrames::kUser;
  options.inputs = inputs;
  options.strides = strides;
  options.keys = keys;
  return written([&](Output& out) { return draw_log(pass, options, out); }, {.color = color});
}

std::string log_json(const Pass& pass, const std::string& filter, const std::string& module,
                     const std::optional<std::string>& around, size_t neighbours) {
  const LogOptions options = options_of(pass, {filter, module, around, neighbours});
  return written([&](Output& out) { return write_log_json(pass, options, out); });
}

template <class Writer, class... Arguments>
void write_with(const Pass& pass, const std::string& path, const LogOptions& options, const LogSource& source,
                Arguments... arguments) {
  const Status status = [&] {
    const nb::gil_scoped_release released;
    return write_file(path, [&](Output& out) -> Status {
      Writer writer(out, arguments...);
      TTAP_TRY(writer.add(pass, options, source));
      writer.finish();
      return {};
    });
  }();
  raise_if_failed(status);
}

}  // namespace

void init_logging(nb::module_& m) {
  m.def("log_text", &log_text, "pass_"_a, nb::kw_only(), "filter"_a = "", "module"_a = "", "around"_a = nb::none(),
        "neighbours"_a = LogOptions{}.neighbours, "stack"_a = "", "inputs"_a = false, "strides"_a = false,
        "keys"_a = false, "color"_a = false);
  m.def("log_json", &log_json, "pass_"_a, nb::kw_only(), "filter"_a = "", "module"_a = "", "around"_a = nb::none(),
        "neighbours"_a = LogOptions{}.neighbours);
  m.def(
      "write_perfetto",
      [](const Pass& pass, const std::string& path, const std::string& filter, const std::string& module, uint32_t rank,
         int64_t pid) {
        write_with<PerfettoWriter>(pass, path, {.filter = filter, .module = module}, {rank, pid},
                                   pass.info().started_unix_ns);
      },
      "pass_"_a, "path"_a, nb::kw_only(), "filter"_a = "", "module"_a = "", "rank"_a = 0, "pid"_a = 0);
  m.def(
      "write_model_explorer",
      [](const Pass& pass, const std::string& path, const std::string& filter, const std::string& module, uint32_t rank,
         int64_t pid) {
        write_with<ModelExplorerWriter>(pass, path, {.filter = filter, .module = module}, {rank, pid});
      },
      "pass_"_a, "path"_a, nb::kw_only(), "filter"_a = "", "module"_a = "", "rank"_a = 0, "pid"_a = 0);
}

}  // namespace ttap::python
