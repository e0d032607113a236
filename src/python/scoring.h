#pragma once

#include <nanobind/nanobind.h>

namespace ttap::python {

// How likely two runs find the tokens of a text.
void init_scoring(nanobind::module_& m);

}  // namespace ttap::python
