#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "ttap/record.h"

namespace ttap::python {

// Names may hold any bytes; Python's text may not, so what is not UTF-8 becomes a surrogate, as in file names.
inline nanobind::object text(std::string_view bytes) {
  PyObject* made = PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "surrogateescape");
  if (made == nullptr) throw nanobind::python_error();
  return nanobind::steal(made);
}

// The way back.
inline std::string bytes_of(nanobind::handle text) {
  const nanobind::object encoded = nanobind::steal(PyUnicode_AsEncodedString(text.ptr(), "utf-8", "surrogateescape"));
  if (!encoded.is_valid()) throw nanobind::python_error();
  return {PyBytes_AsString(encoded.ptr()), static_cast<size_t>(PyBytes_Size(encoded.ptr()))};
}

// The numbers of events, records and objects: what stands for none is None.
inline nanobind::object number_or_none(uint32_t number) {
  return number == kNoNumber ? nanobind::none() : nanobind::object(nanobind::int_(number));
}

}  // namespace ttap::python
