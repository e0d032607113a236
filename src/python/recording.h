#pragma once

#include <nanobind/nanobind.h>

namespace ttap::python {

// RecorderOptions, Event and Recorder, for the package's sources.
void init_recording(nanobind::module_& m);

}  // namespace ttap::python
