#pragma once

#include <nanobind/nanobind.h>

namespace ttap::python {

// Diff, as tensortap.comparing shows it.
void init_comparing(nanobind::module_& m);

}  // namespace ttap::python
