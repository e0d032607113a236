#include "python/comparing.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "python/errors.h"
#include "python/predicate.h"
#include "ttap/diff.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace ttap::python {
void init_comparing(nb::module_& m) {
  using Released = nb::call_guard<nb::gil_scoped_release>;
  nb::class_<Diff>(m, "Diff")
      .def("json", &Diff::json, Released())
      .def("csv",
           [](const Diff& self) {  // names may hold any bytes
             const std::string text = self.csv();
             return nb::bytes(text.data(), text.size());
           })
      .def("text", &Diff::text, "all"_a, "rows"_a, Released())
      .def(
          "write_page",
          [](Diff& self, const std::string& path, size_t details) {
            const Status status = [&] {
              const nb::gil_scoped_release released;
              return self.write_page(path, details);
            }();
            raise_if_failed(status);
          },
          "path"_a, "details"_a)
      .def("is_same", [](const Diff& self, const std::vector<std::string>& fail_on) {
        return value_or_raise(self.same(fail_on));
      });
  m.def(
      "diff",
      [](const std::string& a, const std::string& b, const std::string& passes, const std::string& ranks,
         const std::string& filter, const nb::object& wanted, const std::string& map, const std::string& shards,
         const std::string& noise, double noise_factor, std::optional<double> rtol, std::optional<double> atol,
         bool equal_nan, const std::vector<std::string>& rules, bool structure, bool all_ops, bool strict,
         std::optional<bool> by_token, unsigned threads) {
        const DiffOptions options{.passes = passes,
                                  .ranks = ranks,
                                  .by_token = by_token,
                                  .filter = filter,
                                  .wanted = predicate_of(wanted),
                                  .map = map,
                                  .shards = shards,
                                  .noise = noise,
                                  .structure = structure,
                                  .all_ops = all_ops,
                                  .strict = strict,
                                  .tolerance = {.rtol = rtol,
                                                .atol = atol,
                                                .equal_nan = equal_nan,
                                                .rules = rules,
                                                .noise_factor = noise_factor},
                                  .threads = threads};
        return value_or_raise([&] {
          const nb::gil_scoped_release released;
          return Diff::compare(a, b, options);
        }());
      },
      "a"_a, "b"_a, nb::kw_only(), "passes"_a, "ranks"_a, "filter"_a, "wanted"_a.none(), "map"_a, "shards"_a, "noise"_a,
      "noise_factor"_a, "rtol"_a.none(), "atol"_a.none(), "equal_nan"_a, "rules"_a, "structure"_a, "all_ops"_a,
      "strict"_a, "by_token"_a.none(), "threads"_a);
}

}  // namespace ttap::python
