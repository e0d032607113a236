#pragma once

#include <nanobind/nanobind.h>

namespace ttap::python {

// tensortap._core.Guard: runs the package's own code inside the program's.
void init_guard(nanobind::module_& m);

}  // namespace ttap::python
