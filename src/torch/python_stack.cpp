#include "torch/python_stack.h"

#include <Python.h>
#include <frameobject.h>

#include <cstdint>

#include "core/mix64.h"

namespace ttap::torch_source {
namespace {

constexpr size_t kDeepest = 256;  // frames; of a deeper recursion the innermost

std::string utf8(PyObject* text) {
  Py_ssize_t size = 0;
  const char* bytes = text != nullptr && PyUnicode_Check(text) ? PyUnicode_AsUTF8AndSize(text, &size) : nullptr;
  if (bytes == nullptr) {
    PyErr_Clear();
    return "?";
  }
  return {bytes, static_cast<size_t>(size)};
}

std::string attribute(PyObject* object, const char* name) {
  PyObject* value = PyObject_GetAttrString(object, name);
  if (value == nullptr) PyErr_Clear();
  std::string text = utf8(value);
  Py_XDECREF(value);
  return text;
}

// As linecache has it, without the indentation.
std::string source_line(const std::string& file, int line) {
  PyObject* module = PyImport_ImportModule("linecache");
  PyObject* text = module == nullptr ? nullptr : PyObject_CallMethod(module, "getline", "si", file.c_str(), line);
  if (text == nullptr) PyErr_Clear();
  std::string source = text == nullptr ? std::string() : utf8(text);
  Py_XDECREF(text);
  Py_XDECREF(module);
  const size_t first = source.find_first_not_of(" \t");
  if (first == std::string::npos) return {};
  const size_t last = source.find_last_not_of(" \t\r\n");
  return source.substr(first, last - first + 1);
}

}  // namespace

uint32_t PythonStacks::here(std::string* new_text, size_t own_frames) {
  if (Py_IsInitialized() == 0 || PyGILState_GetThisThreadState() == nullptr) return 0;
  const PyGILState_STATE gil = PyGILState_Ensure();
  // Not the table's: making a frame may collect garbage, and so let other threads in here.
  thread_local std::vector<Frame> scratch;
  scratch.clear();
  uint64_t hash = 0;
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  for (; frame != nullptr && own_frames > 0; --own_frames) {
    PyFrameObject* caller = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = caller;
  }
  while (frame != nullptr && scratch.size() < kDeepest) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    const Frame seen{code, PyFrame_GetLasti(frame)};
    Py_DECREF(code);  // its frame holds it, or the table does
    scratch.push_back(seen);
    hash = mix64(hash * 31 + reinterpret_cast<uintptr_t>(seen.code) + static_cast<uint64_t>(seen.instruction) * 0x9E37);
    PyFrameObject* caller = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = caller;
  }
  Py_XDECREF(frame);
  uint32_t number = 0;
  const auto [begin, end] = numbers_.equal_range(hash);
  for (auto it = begin; it != end && number == 0; ++it)
    if (stacks_[it->second - 1] == scratch) number = it->second;
  if (number == 0 && !scratch.empty()) {
    for (const Frame& each : scratch) Py_INCREF(static_cast<PyObject*>(each.code));
    stacks_.push_back(scratch);
    number = static_cast<uint32_t>(stacks_.size());
    numbers_.emplace(hash, number);
    delivered_.emplace_back(false);
  }
  if (number > 0 && new_text != nullptr && !delivered_[number - 1].load(std::memory_order_relaxed))
    *new_text = text(number);
  PyGILState_Release(gil);
  return number;
}

void PythonStacks::set_delivered(uint32_t number) { delivered_[number - 1].store(true, std::memory_order_relaxed); }

std::string PythonStacks::text(uint32_t number) const {
  if (number == 0 || number > stacks_.size()) return {};
  const std::vector<Frame>& frames = stacks_[number - 1];
  std::string text;
  for (size_t i = frames.size(); i-- > 0;) {
    auto* code = static_cast<PyObject*>(frames[i].code);
    const int line = PyCode_Addr2Line(reinterpret_cast<PyCodeObject*>(code), frames[i].instruction);
    const std::string file = attribute(code, "co_filename");
    const std::string function = attribute(code, PY_VERSION_HEX >= 0x030B0000 ? "co_qualname" : "co_name");
    if (!text.empty()) text += '\n';
    text += file + ":" + std::to_string(line) + " in " + function;
    if (const std::string source = source_line(file, line); !source.empty()) text += "\t" + source;
  }
  return text;
}

PythonStacks::~PythonStacks() {
  for (const std::vector<Frame>& frames : stacks_)
    for (const Frame& frame : frames) Py_DECREF(static_cast<PyObject*>(frame.code));
}

}  // namespace ttap::torch_source
