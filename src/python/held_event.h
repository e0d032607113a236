#pragma once

#include <nanobind/nanobind.h>

#include "ttap/recorder.h"

namespace ttap::python {

// An event keeps its recorder alive: it points to names that are the recorder's.
struct HeldEvent {
  Event event;
  nanobind::object recorder;
};

}  // namespace ttap::python
