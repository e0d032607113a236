#include "torch/python_side.h"

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/jit/python/pybind_utils.h>

#include "torch/raise_later.h"
#include "torch/tables/arguments.h"
#include "torch/tables/notes.h"

// The only file that turns PyTorch's values into Python's.
namespace ttap::torch_source {
namespace {

namespace py = pybind11;

// What our own functions raise is not the model's concern: it is reported as unraisable. An interrupt is the program's.
void report_error(PyObject* where) {
  if (!raise_later()) PyErr_WriteUnraisable(where);
}

std::string text_of(PyObject* object) {
  Py_ssize_t size = 0;
  const char* text = PyUnicode_Check(object) != 0 ? PyUnicode_AsUTF8AndSize(object, &size) : nullptr;
  if (text == nullptr) {
    PyErr_Clear();
    return {};
  }
  return {text, static_cast<size_t>(size)};
}

// An exception that the program is handling stays as it is.
class KeepError {
 public:
  KeepError() { PyErr_Fetch(&type_, &value_, &trace_); }
  ~KeepError() { PyErr_Restore(type_, value_, trace_); }
  KeepError(const KeepError&) = delete;
  KeepError& operator=(const KeepError&) = delete;

 private:
  PyObject *type_ = nullptr, *value_ = nullptr, *trace_ = nullptr;
};

std::optional<Level> decide(PyObject* function, const std::string& name) {
  const py::gil_scoped_acquire gil;
  const KeepError keep;
  PyObject* text = PyUnicode_DecodeUTF8(name.data(), static_cast<Py_ssize_t>(name.size()), "replace");
  PyObject* answer = text == nullptr ? nullptr : PyObject_CallOneArg(function, text);
  Py_XDECREF(text);
  if (answer == nullptr) {
    report_error(function);
    return std::nullopt;
  }
  const long level = answer == Py_None ? -1 : PyLong_AsLong(answer);
  Py_DECREF(answer);
  if (level < 0 || level > static_cast<long>(Level::kFull)) {
    PyErr_Clear();
    return std::nullopt;
  }
  return static_cast<Level>(level);
}

PythonSide::Described describe(PyObject* function, const at::Tensor& tensor) {
  const py::gil_scoped_acquire gil;
  const KeepError keep;
  PyObject* argument = THPVariable_Wrap(tensor);
  PyObject* answer = argument == nullptr ? nullptr : PyObject_CallOneArg(function, argument);
  Py_XDECREF(argument);
  PythonSide::Described described;
  if (answer == nullptr) {
    report_error(function);
  } else if (PyTuple_Check(answer) && PyTuple_GET_SIZE(answer) == 3) {
    described.note = text_of(PyTuple_GET_ITEM(answer, 0));
    described.json = text_of(PyTuple_GET_ITEM(answer, 1));
    described.shows_inside = PyObject_IsTrue(PyTuple_GET_ITEM(answer, 2)) == 1;
  }
  Py_XDECREF(answer);
  return described;
}

std::vector<PythonSide::Part> take_apart(PyObject* function, const at::Tensor& tensor) {
  const py::gil_scoped_acquire gil;
  const KeepError keep;
  std::vector<PythonSide::Part> parts;
  PyObject* argument = THPVariable_Wrap(tensor);
  PyObject* answer = argument == nullptr ? nullptr : PyObject_CallOneArg(function, argument);
  Py_XDECREF(argument);
  if (answer == nullptr) {
    report_error(function);
    return parts;
  }
  const Py_ssize_t count = PyList_Check(answer) != 0 ? PyList_GET_SIZE(answer) : 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* part = PyList_GET_ITEM(answer, i);
    if (PyTuple_Check(part) == 0 || PyTuple_GET_SIZE(part) != 5) continue;
    parts.push_back({.path = text_of(PyTuple_GET_ITEM(part, 0)),
                     .tensor = tensor_of(PyTuple_GET_ITEM(part, 1)),
                     .group = text_of(PyTuple_GET_ITEM(part, 2)),
                     .why = text_of(PyTuple_GET_ITEM(part, 3)),
                     .are_values = PyObject_IsTrue(PyTuple_GET_ITEM(part, 4)) == 1});
  }
  Py_DECREF(answer);
  return parts;
}

// PyTorch says it in another way from version to version.
template <class Slot>
bool has_python_object(const Slot& slot) {
  if constexpr (requires { slot.load_pyobj(); })
    return slot.load_pyobj() != nullptr;
  else
    return slot.check_pyobj().value_or(nullptr) != nullptr;
}

// As a dispatch mode is given it: an integer that stands for a dtype is a torch.dtype. Of a tensor that belongs to no
// Python object yet it is an alias, for the program may want to make a Parameter of it, or another class.
py::object python_value(const c10::IValue& value, c10::TypeKind kind) {
  if (value.isInt())
    if (const std::string name = torch_name(value.toInt(), kind); !name.empty())
      return py::module_::import("torch").attr(name.c_str());
  if (!value.isTensor() || !value.toTensor().defined()) return torch::jit::toPyObject(value);
  c10::TensorImpl& impl = *value.toTensor().unsafeGetTensorImpl();
  if (impl.key_set().has(c10::DispatchKey::Python) || has_python_object(*impl.pyobj_slot()))
    return torch::jit::toPyObject(value);
  return torch::jit::toPyObject(
      at::Tensor(impl.shallow_copy_and_detach(impl.version_counter(), /*allow_tensor_metadata_change=*/true)));
}

std::string error_note(std::string_view error) {
  JsonObject note;
  note.add("error", json_string(error));
  return note.str();
}

std::string call_hook(PyObject* function, const std::string& op, const std::string& name,
                      c10::ArrayRef<const c10::IValue> arguments, const Operator& schema,
                      c10::ArrayRef<const c10::IValue> results) {
  const py::gil_scoped_acquire gil;
  const KeepError keep;
  try {
    py::list positional;
    py::dict by_name;
    for (size_t i = 0; i < arguments.size(); ++i) {
      const c10::Argument& argument = schema.schema->arguments()[i];
      py::object value = python_value(arguments[i], kind_of(argument));
      if (argument.kwarg_only()) {
        by_name[py::str(argument.name())] = std::move(value);
      } else {
        positional.append(std::move(value));
      }
    }
    py::object result = py::none();
    if (results.size() == 1) result = python_value(results[0], c10::TypeKind::AnyType);
    if (results.size() > 1) {
      py::list all;
      for (const c10::IValue& value : results) all.append(python_value(value, c10::TypeKind::AnyType));
      result = py::tuple(all);
    }
    const py::object answer =
        py::reinterpret_borrow<py::object>(function)(op, py::tuple(positional), by_name, result, name);
    return text_of(answer.ptr());
  } catch (py::error_already_set& error) {
    // What a hook raises has become a note by then, all but what ends the program.
    std::string note = error_note(Py_TYPE(error.value().ptr())->tp_name);
    error.restore();
    if (!raise_later()) PyErr_Clear();
    return note;
  } catch (const std::exception& error) {
    return error_note(error.what());
  }
}

}  // namespace

PythonSide python_side(const PythonFunctions& functions) {
  PythonSide side;
  if (PyObject* function = functions.decide)
    side.decide = [function](const std::string& name) { return decide(function, name); };
  if (PyObject* function = functions.describe)
    side.describe = [function](const at::Tensor& tensor) { return describe(function, tensor); };
  if (PyObject* function = functions.take_apart)
    side.take_apart = [function](const at::Tensor& tensor) { return take_apart(function, tensor); };
  if (PyObject* function = functions.hook)
    side.hook = [function](const std::string& op, const std::string& name, c10::ArrayRef<const c10::IValue> arguments,
                           const Operator& schema, c10::ArrayRef<const c10::IValue> results) {
      return call_hook(function, op, name, arguments, schema, results);
    };
  return side;
}

at::Tensor tensor_of(PyObject* object) { return THPVariable_Check(object) ? THPVariable_Unpack(object) : at::Tensor(); }

}  // namespace ttap::torch_source
