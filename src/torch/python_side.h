#pragma once

#include <Python.h>

#include "torch/observer.h"

namespace ttap::torch_source {

// Python functions as an observer calls them; each may be null. They are borrowed: who makes this holds them for as
// long as the observer works.
struct PythonFunctions {
  PyObject* decide = nullptr;      // name -> level number, or None
  PyObject* describe = nullptr;    // tensor -> (note, JSON text, whether what its code calls is shown)
  PyObject* take_apart = nullptr;  // tensor -> list of (path, tensor or None, group, why not, whether these are values)
  PyObject* hook = nullptr;        // (op, args, kwargs, result, name) -> JSON text
};
PythonSide python_side(const PythonFunctions& functions);

// A torch.Tensor; undefined for anything else.
at::Tensor tensor_of(PyObject* object);

}  // namespace ttap::torch_source
