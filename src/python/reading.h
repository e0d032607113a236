#pragma once

#include <nanobind/nanobind.h>

namespace ttap::python {

// Run, Rank, Pass and the records of a pass, as tensortap.reading shows them.
void init_reading(nanobind::module_& m);

}  // namespace ttap::python
