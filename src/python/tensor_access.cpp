#include "python/tensor_access.h"

#include <nanobind/stl/string.h>

#include <string>
#include <vector>

namespace nb = nanobind;

namespace ttap::python {
namespace {

// torch.dtype objects are singletons that live for ever; a program has some thirty of them. Filled once, by the
// package, when it first meets torch; read under the GIL.
std::vector<std::pair<PyObject*, DType>>& known_dtypes() {
  static std::vector<std::pair<PyObject*, DType>> known;
  return known;
}

DType dtype_of(nb::handle dtype) {
  for (const auto& [object, known] : known_dtypes())
    if (object == dtype.ptr()) return known;
  throw nb::type_error(("dtype " + std::string(nb::str(dtype).c_str()) + " is not one TensorTap records").c_str());
}

// Names of attributes, interned once; they outlive the interpreter.
struct Names {
  PyObject* dtype = PyUnicode_InternFromString("dtype");
  PyObject* shape = PyUnicode_InternFromString("shape");
  PyObject* stride = PyUnicode_InternFromString("stride");
  PyObject* data_ptr = PyUnicode_InternFromString("data_ptr");
};
const Names& names() {
  static const Names names;
  return names;
}

nb::object checked(PyObject* made) {
  if (made == nullptr) throw nb::python_error();
  return nb::steal(made);
}

nb::object attribute(nb::handle object, PyObject* name) { return checked(PyObject_GetAttr(object.ptr(), name)); }

nb::object call_method(nb::handle object, PyObject* name) {
  PyObject* const arguments[] = {object.ptr()};
  return checked(PyObject_VectorcallMethod(name, arguments, 1, nullptr));
}

// A tuple of integers (torch.Size is one) into `out`; how many there are.
size_t read_numbers(nb::handle tuple, std::array<int64_t, kMaxDims>& out) {
  if (!PyTuple_Check(tuple.ptr())) throw nb::type_error("a shape or stride is not a tuple of numbers");
  const auto count = static_cast<size_t>(PyTuple_Size(tuple.ptr()));
  if (count > kMaxDims) throw nb::value_error("more than 64 dimensions");
  for (size_t i = 0; i < count; ++i) {
    out[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple.ptr(), static_cast<Py_ssize_t>(i)));
    if (out[i] == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  }
  return count;
}

}  // namespace

TensorAccess::TensorAccess(nb::handle tensor) : TensorAccess(tensor, true) {}

TensorAccess::TensorAccess(nb::handle tensor, bool with_bytes) {
  dtype_ = dtype_of(attribute(tensor, names().dtype));
  dims_ = read_numbers(attribute(tensor, names().shape), shape_);
  if (!with_bytes) return;
  const size_t strides = read_numbers(call_method(tensor, names().stride), strides_);
  if (strides != dims_) throw nb::value_error("shape and stride differ in length");
  has_strides_ = true;
  data_ = PyLong_AsVoidPtr(call_method(tensor, names().data_ptr).ptr());
  if (data_ == nullptr && PyErr_Occurred() != nullptr) throw nb::python_error();
}

TensorView TensorAccess::view() const {
  TensorView view{data_, dtype_, {shape_.data(), dims_}, {}};
  if (has_strides_) view.strides = {strides_.data(), dims_};
  return view;
}

void init_tensor_access(nb::module_& m) {
  m.def(
      "register_dtype",
      [](nb::handle dtype, const std::string& name) {
        const auto known = dtype_from_name(name);
        if (!known) throw nb::value_error(("no dtype is called '" + name + "'").c_str());
        known_dtypes().emplace_back(dtype.inc_ref().ptr(), *known);
      },
      nb::arg("dtype"), nb::arg("name"), "Tells which torch.dtype a TensorTap dtype is.");
}

}  // namespace ttap::python
