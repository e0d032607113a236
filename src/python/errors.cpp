#include "python/errors.h"

namespace nb = nanobind;

namespace ttap::python {
namespace {

PyObject* format_error = nullptr;  // tensortap.FormatError; the module owns it

PyObject* exception_for(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument: return PyExc_ValueError;
    case ErrorCode::kNotFound: return PyExc_FileNotFoundError;
    case ErrorCode::kIo:
    case ErrorCode::kNoSpace: return PyExc_OSError;
    case ErrorCode::kNotRecorded: return PyExc_LookupError;
    default: return format_error;
  }
}

}  // namespace

void raise(const Error& error) {
  PyErr_SetString(exception_for(error.code), error.describe().c_str());
  throw nb::python_error();
}

void raise_of_device(const Error& error) {
  PyErr_SetString(PyExc_RuntimeError, error.describe().c_str());
  throw nb::python_error();
}

void init_errors(nb::module_& m) {
  format_error = PyErr_NewExceptionWithDoc("tensortap.FormatError",
                                           "A file that cannot be read: damaged, hostile, or of an unknown kind.",
                                           PyExc_ValueError, nullptr);
  m.attr("FormatError") = nb::handle(format_error);
}

}  // namespace ttap::python
