#pragma once

#include <nanobind/nanobind.h>

#include "ttap/run.h"

namespace ttap::python {

// The bytes of a tensor in C order as a writable, one-dimensional uint8 array that owns them: what the caller does to
// it shows nowhere else. A large tensor of a finished segment is mapped copy-on-write, so nothing is read before it is
// used; anything else is copied.
nanobind::object tensor_bytes(const Pass& pass, size_t index);

}  // namespace ttap::python
