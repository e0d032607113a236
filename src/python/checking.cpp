#include "python/checking.h"

#include <nanobind/stl/string.h>

#include "python/errors.h"
#include "python/predicate.h"
#include "report/check/check_report.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace ttap::python {

void init_checking(nb::module_& m) {
  using Released = nb::call_guard<nb::gil_scoped_release>;
  nb::class_<CheckReport>(m, "Check")
      .def(
          "json", [](const CheckReport& self) { return output_text([&](Output& out) { write_json(self, out); }); },
          Released())
      .def(
          "text", [](const CheckReport& self) { return output_text([&](Output& out) { draw_report(self, out); }); },
          Released())
      .def_prop_ro("clean", &CheckReport::clean)
      .def_prop_ro("complete", &CheckReport::complete)
      .def_prop_ro("conclusive", &CheckReport::conclusive);
  m.def(
      "check",
      [](const std::string& path, const std::string& passes, const std::string& ranks, const std::string& filter,
         const nb::object& wanted, bool verify, bool all) {
        const CheckOptions options{
            .selection = {path, passes, ranks, filter}, .wanted = predicate_of(wanted), .verify = verify, .all = all};
        return value_or_raise([&] {
          const nb::gil_scoped_release released;
          return check_run(options);
        }());
      },
      "path"_a, "passes"_a, "ranks"_a, "filter"_a, "wanted"_a.none(), "verify"_a, "all"_a);
}

}  // namespace ttap::python
