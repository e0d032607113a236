#include "python/comparing.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "python/errors.h"
#include "report/diff/diff_report.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace ttap::python {
namespace {

struct Diff {
  Diff(DiffReport r, unsigned t) : report(std::move(r)), threads(t) {}
  Diff(Diff&&) = default;  // and no copy, which a report does not have
  DiffReport report;
  unsigned threads;
};

std::unique_ptr<Diff> compare(const std::string& a, const std::string& b, const DiffOptions& options) {
  Result<DiffReport> report = [&] {
    const nb::gil_scoped_release released;
    return diff(a, b, options);
  }();
  return std::make_unique<Diff>(value_or_raise(std::move(report)), options.threads);
}

template <class Write>
std::string written_text(Write&& write, Terminal terminal = {}) {
  const nb::gil_scoped_release released;
  std::string text;
  Output out(text, terminal);
  write(out);
  out.flush();
  return text;
}

}  // namespace

void init_comparing(nb::module_& m) {
  nb::class_<Diff>(m, "Diff")
      .def("json",
           [](const Diff& self) { return written_text([&](Output& out) { write_diff_json(self.report, out); }); })
      .def("csv",
           [](const Diff& self) {  // names may hold any bytes
             const std::string text = written_text([&](Output& out) { write_diff_csv(self.report, out); });
             return nb::bytes(text.data(), text.size());
           })
      .def(
          "text",
          [](const Diff& self, bool all, size_t rows) {
            return written_text([&](Output& out) { draw_diff(self.report, {.rows = rows, .all = all}, out); });
          },
          "all"_a, "rows"_a)
      .def(
          "write_page",
          [](Diff& self, const std::string& path, size_t details) {
            const Status status = [&] {
              const nb::gil_scoped_release released;
              add_details(self.report, details, self.threads);
              return write_diff_page(self.report, path);
            }();
            self.report.details.clear();
            raise_if_failed(status);
          },
          "path"_a, "details"_a)
      .def("is_same", [](const Diff& self, const std::vector<std::string>& fail_on) {
        return is_same(self.report, value_or_raise(FailOn::parse(fail_on)));
      });
  m.def(
      "diff",
      [](const std::string& a, const std::string& b, const std::string& passes, const std::string& ranks,
         const std::string& filter, const std::string& map, const std::string& shards, const std::string& noise,
         double noise_factor, std::optional<double> rtol, std::optional<double> atol, bool equal_nan,
         const std::vector<std::string>& rules, bool structure, unsigned threads) {
        return compare(
            a, b,
            {.passes = passes,
             .ranks = ranks,
             .filter = filter,
             .map = map,
             .shards = shards,
             .noise = noise,
             .structure = structure,
             .tolerance =
                 {.rtol = rtol, .atol = atol, .equal_nan = equal_nan, .rules = rules, .noise_factor = noise_factor},
             .threads = threads});
      },
      "a"_a, "b"_a, nb::kw_only(), "passes"_a, "ranks"_a, "filter"_a, "map"_a, "shards"_a, "noise"_a, "noise_factor"_a,
      "rtol"_a.none(), "atol"_a.none(), "equal_nan"_a, "rules"_a, "structure"_a, "threads"_a);
}

}  // namespace ttap::python
