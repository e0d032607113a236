#pragma once

#include <nanobind/nanobind.h>

namespace ttap::python {

// What ran in a pass: as text, as JSON, and as files for viewers. After init_reading.
void init_logging(nanobind::module_& m);

}  // namespace ttap::python
