#include "torch/raise_later.h"

#include <Python.h>

namespace ttap::torch_source {
namespace {

// One is enough to end a program; further ones are dropped until it was raised. Guarded by the GIL.
PyObject* waiting = nullptr;

int raise_now(void* /*unused*/) {
  PyObject* error = waiting;
  waiting = nullptr;
  if (error == nullptr) return 0;
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
  Py_DECREF(error);
  return -1;
}

}  // namespace

bool raise_later() {
  if (PyErr_Occurred() == nullptr || PyErr_ExceptionMatches(PyExc_Exception) != 0) return false;
  PyObject *type = nullptr, *error = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &error, &trace);
  PyErr_NormalizeException(&type, &error, &trace);
  // Frames hold tensors of the program, which does other things with a tensor that somebody else holds.
  PyException_SetTraceback(error, Py_None);
  Py_XDECREF(type);
  Py_XDECREF(trace);
  if (waiting != nullptr) {
    Py_DECREF(error);
    return true;
  }
  waiting = error;
  if (Py_AddPendingCall(&raise_now, nullptr) == 0) return true;
  waiting = nullptr;
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
  Py_DECREF(error);
  return false;
}

}  // namespace ttap::torch_source
