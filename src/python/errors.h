#pragma once

#include <nanobind/nanobind.h>

#include "ttap/result.h"

namespace ttap::python {

// The one place where an Error becomes an exception: FileNotFoundError, OSError, ValueError, KeyError for what was not
// recorded, and tensortap.FormatError for files that cannot be read.
[[noreturn]] void raise(const Error& error);

// The same for what a device refused, in a program that asked for one: RuntimeError.
[[noreturn]] void raise_of_device(const Error& error);

template <class T>
T value_or_raise(Result<T> result) {
  if (!result.ok()) raise(result.error());
  return std::move(result).value();
}
inline void raise_if_failed(const Status& status) {
  if (!status.ok()) raise(status.error());
}

void init_errors(nanobind::module_& m);

}  // namespace ttap::python
