#pragma once

#include <nanobind/nanobind.h>

namespace ttap::python {

// What probes ask of C++: a place on a device that is looked at, a comparison, a fingerprint.
void init_probing(nanobind::module_& m);

}  // namespace ttap::python
