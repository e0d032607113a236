#pragma once

#include <nanobind/nanobind.h>

namespace ttap::python {

// PassCollectives: which calls of several ranks are one collective, and what each rank gave to it.
void init_collectives(nanobind::module_& m);

}  // namespace ttap::python
