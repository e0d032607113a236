#pragma once

#include <nanobind/nanobind.h>

namespace ttap::torch_source {

void init_tracing(nanobind::module_& m);

}  // namespace ttap::torch_source
