#pragma once

#include <nanobind/nanobind.h>

namespace ttap::python {

void init_quantizing(nanobind::module_& m);

}  // namespace ttap::python
