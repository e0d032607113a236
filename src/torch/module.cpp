#include <nanobind/nanobind.h>
#include <torch/version.h>

#include "torch/empty_observer.h"
#include "torch/tracing.h"

NB_MODULE(_ops, m) {
  m.doc() = "TensorTap's source of operators, built for one version of PyTorch.";
  m.attr("built_for") = TORCH_VERSION;
  nanobind::set_leak_warnings(false);
  ttap::torch_source::init_tracing(m);
  nanobind::class_<ttap::torch_source::EmptyObserver>(m, "EmptyObserver",
                                                      "Observes operators and does nothing, as long as it lives.")
      .def(nanobind::init<>());
}
