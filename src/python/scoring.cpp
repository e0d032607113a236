#include "python/scoring.h"

#include <nanobind/stl/string.h>

#include "python/errors.h"
#include "report/mismatch/mismatch_report.h"
#include "report/text/output_file.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace ttap::python {

void init_scoring(nb::module_& m) {
  using Released = nb::call_guard<nb::gil_scoped_release>;
  nb::class_<MismatchReport>(m, "Mismatch")
      .def(
          "json",
          [](const MismatchReport& self) { return output_text([&](Output& out) { write_mismatch_json(self, out); }); },
          Released())
      .def(
          "text",
          [](const MismatchReport& self) { return output_text([&](Output& out) { draw_mismatch(self, out); }); },
          Released())
      .def(
          "write_plot",
          [](const MismatchReport& self, const std::string& path) {
            const Status written = [&] {
              const nb::gil_scoped_release released;
              return write_file(path, [&](Output& out) {
                write_mismatch_plot(self, out);
                return Status{};
              });
            }();
            if (!written.ok()) raise(as_unwritable(written.error(), path));
          },
          "path"_a);
  m.def(
      "mismatch",
      [](const std::string& rollout, const std::string& trainer, const std::string& rank,
         const std::string& rollout_logits, const std::string& trainer_logits, double ratio, size_t worst, bool cause,
         unsigned threads) {
        const MismatchOptions options{.rank = rank,
                                      .rollout_logits = rollout_logits,
                                      .trainer_logits = trainer_logits,
                                      .ratio = ratio,
                                      .worst = worst,
                                      .cause = cause,
                                      .threads = threads};
        return value_or_raise([&] {
          const nb::gil_scoped_release released;
          return find_mismatch(rollout, trainer, options);
        }());
      },
      "rollout"_a, "trainer"_a, "rank"_a, "rollout_logits"_a, "trainer_logits"_a, "ratio"_a, "worst"_a, "cause"_a,
      "threads"_a);
}

}  // namespace ttap::python
