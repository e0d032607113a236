#include "torch/raise_later.h"

#include <Python.h>

#include <cstring>

namespace ttap::torch_source {
namespace {

// One is enough to end a program; further ones are dropped until it was raised. Guarded by the GIL.
PyObject* waiting = nullptr;
constexpr int kMostInterrupts = 20;  // while one question is asked

bool is_of_ours(PyObject* frame) {
  PyObject* globals = PyObject_GetAttrString(frame, "f_globals");
  PyObject* name = globals == nullptr ? nullptr : PyDict_GetItemString(globals, "__name__");  // borrowed
  const char* text = name != nullptr && PyUnicode_Check(name) != 0 ? PyUnicode_AsUTF8(name) : nullptr;
  const bool ours = text != nullptr && std::strncmp(text, "tensortap.", std::strlen("tensortap.")) == 0;
  Py_XDECREF(globals);
  PyErr_Clear();
  return ours;
}

// A hook would be interrupted again, or the end of a trace, which would then go on for good.
bool runs_code_of_ours() {
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  while (frame != nullptr && !is_of_ours(reinterpret_cast<PyObject*>(frame))) {
    PyFrameObject* back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  const bool found = frame != nullptr;
  Py_XDECREF(frame);
  return found;
}

// Of the exception that is set, its owner from now on. Null: none is.
PyObject* take_error() {
  PyObject *type = nullptr, *error = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &error, &trace);
  PyErr_NormalizeException(&type, &error, &trace);
  if (trace != nullptr) PyException_SetTraceback(error, trace);
  Py_XDECREF(type);
  Py_XDECREF(trace);
  return error;
}

// What a signal handler of the program has raised: see program_errors.py. A handler may raise while we ask: then that
// is asked about, and takes its place.
bool is_of_program(PyObject*& error) {
  PyObject* module = PyImport_ImportModule("tensortap.torch_glue.program_errors");
  PyObject* answer = nullptr;
  for (int attempt = 0; module != nullptr && answer == nullptr && attempt < kMostInterrupts; ++attempt) {
    answer = PyObject_CallMethod(module, "is_of_program", "O", error);
    if (answer != nullptr) break;
    Py_DECREF(error);
    error = take_error();
  }
  const bool found = answer != nullptr && PyObject_IsTrue(answer) == 1;
  Py_XDECREF(answer);
  Py_XDECREF(module);
  PyErr_Clear();
  return found;
}

void raise(PyObject* error) {
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
  Py_DECREF(error);
}

int raise_now(void* /*unused*/) {
  if (waiting == nullptr) return 0;
  if (runs_code_of_ours() && Py_AddPendingCall(&raise_now, nullptr) == 0) return 0;
  PyObject* error = waiting;
  waiting = nullptr;
  raise(error);
  return -1;
}

}  // namespace

bool raise_later() {
  if (PyErr_Occurred() == nullptr) return false;
  const bool ends_program = PyErr_ExceptionMatches(PyExc_Exception) == 0;
  PyObject* error = take_error();
  if (!ends_program && !is_of_program(error)) {
    raise(error);
    return false;
  }
  // Frames hold tensors of the program, which does other things with a tensor that somebody else holds.
  PyException_SetTraceback(error, Py_None);
  if (waiting != nullptr) {
    Py_DECREF(error);
    return true;
  }
  waiting = error;
  if (Py_AddPendingCall(&raise_now, nullptr) == 0) return true;
  waiting = nullptr;
  raise(error);
  return false;
}

}  // namespace ttap::torch_source
