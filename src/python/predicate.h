#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <string_view>

namespace ttap::python {

// Asks a Python function, which must outlive it, of a key; none for None. May be called without the GIL.
inline std::function<bool(std::string_view)> predicate_of(const nanobind::object& function) {
  if (function.is_none()) return {};
  return [&function](std::string_view key) {
    const nanobind::gil_scoped_acquire held;
    const int truth = PyObject_IsTrue(function(nanobind::str(key.data(), key.size())).ptr());
    if (truth < 0) throw nanobind::python_error();
    return truth == 1;
  };
}

}  // namespace ttap::python
