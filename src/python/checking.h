#pragma once

#include <nanobind/nanobind.h>

namespace ttap::python {

// tensortap._core.check: the first NaN or Inf of a run.
void init_checking(nanobind::module_& m);

}  // namespace ttap::python
